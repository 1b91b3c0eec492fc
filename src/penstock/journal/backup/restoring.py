"""The rows that a restored store begins with.

The original store may have got more messages after the backup. So a restored store gets an identity and a secret of its
own, which change the ids of its messages. Ids that a client remembers of the other store then name no message here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

from penstock.broker.ledger import named_store
from penstock.journal.backup.checking import Checked
from penstock.journal.backup.rows import read_rows
from penstock.journal.codec import (
    FACTS_ROW,
    SNAPSHOT_ROW,
    Row,
    check_batch,
    encode_dump,
    encode_facts,
    seal_facts,
    seal_snapshot,
    topic_of,
)


def restored_rows(checked: Checked, folder: Path, *, keep_identity: bool) -> Iterator[tuple[bytes, Row]]:
    """Yield the messages, then the state. A state without its messages would be damage, messages alone are not."""
    manifest, recovery = checked
    heads = {topic.number: topic.head for topic in recovery.state.topics.values()}
    for file in manifest.batches:
        for kind, row in read_rows(folder, file):
            check_batch(row)
            if row[1] > heads.get(topic_of(row[0]), row[1]):
                yield kind, row
    for file in manifest.state:
        yield from read_rows(folder, file)
    if not keep_identity:
        fact = named_store(lambda: secrets.randbits(63) or 1, renewed=True)
        recovery.state.apply(fact)
        seq = recovery.commit + 1
        yield FACTS_ROW, seal_facts(seq, encode_facts([fact]))
        yield SNAPSHOT_ROW, seal_snapshot(seq, encode_dump(recovery.state.dump()._replace(at=recovery.at)))
