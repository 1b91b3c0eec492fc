"""The check that a store has the history of a backup, so that the backup can be continued."""

from __future__ import annotations

from penstock.broker.facts import StoreNamed
from penstock.errors import FailedPreconditionError
from penstock.journal.backup.manifest import Manifest, Run
from penstock.journal.codec import open_facts, open_snapshot
from penstock.journal.port import StoreRows


def require_same_history(earlier: Manifest, rows: StoreRows) -> None:
    """Refuse a store that lost commits of the backup and went on, because its numbers now mean something else.

    The facts of the backup's last commit are compared, or, if the store no longer has them, the last batch of each
    topic. A stored batch never changes, and batches missing at the front of a topic are no longer needed.
    """
    if _identity(rows) != earlier.store:
        raise FailedPreconditionError("This folder holds the backup of another store; name another folder.")
    last = rows.facts(earlier.commit - 1)[:1]
    if last and last[0][0] == earlier.commit and earlier.crc:
        same = last[0][1] == earlier.crc
    else:
        same = rows.last_commit() >= earlier.commit and all(_has(rows, run) for run in copied_ends(earlier).values())
    if not same:
        raise FailedPreconditionError(
            "The store has another history than the backup in this folder: it lost commits, or is an older copy. Name "
            "another folder."
        )


def copied_ends(manifest: Manifest) -> dict[int, Run]:
    """Return the last run of each topic."""
    ends: dict[int, Run] = {}
    for file in manifest.batches:
        for run in file.runs:
            if run.topic not in ends or ends[run.topic].until < run.until:
                ends[run.topic] = run
    return ends


def _has(rows: StoreRows, run: Run) -> bool:
    if rows.next_batch(run.topic, run.last) == (run.topic, run.last, run.until, run.crc):
        return True
    first = rows.next_batch(run.topic, 0)  # asked last, as batches may be forgotten meanwhile
    return first is None or first[:2] > (run.topic, run.last)


def _identity(rows: StoreRows) -> str:
    snapshot = rows.snapshot()
    identity = open_snapshot(snapshot).identity if snapshot is not None else ""
    after = snapshot[0] if snapshot is not None else 0
    while not identity and (found := rows.facts(after)):
        named = [fact for row in found for fact in open_facts(row) if type(fact) is StoreNamed]
        identity = named[0].identity if named else ""
        after = found[-1][0]
    return identity
