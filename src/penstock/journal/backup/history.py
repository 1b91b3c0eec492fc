"""Whether a store has the history that a backup has, so that the backup can go on from where it ended."""

from __future__ import annotations

from penstock.broker.facts import StoreNamed
from penstock.errors import FailedPreconditionError
from penstock.journal.backup.manifest import Manifest, Run
from penstock.journal.codec import open_facts, open_snapshot
from penstock.journal.port import StoreRows


def require_same_history(earlier: Manifest, rows: StoreRows) -> None:
    """A store that lost its last commits and went on has numbers in common with the backup, and not what they mean.

    The facts of the backup's last commit tell, and where the store no longer has them, the last batch of each topic: a
    stored batch never changes, and what is gone at the front of a topic is no longer needed.
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
    """The last run of each topic."""
    ends: dict[int, Run] = {}
    for file in manifest.batches:
        for run in file.runs:
            if run.topic not in ends or ends[run.topic].until < run.until:
                ends[run.topic] = run
    return ends


def _has(rows: StoreRows, run: Run) -> bool:
    if rows.next_batch(run.topic, run.last) == (run.topic, run.last, run.until, run.crc):
        return True
    first = rows.next_batch(run.topic, 0)  # asked last: what is forgotten meanwhile is gone from the front
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
