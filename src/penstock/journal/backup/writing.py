"""The writer of a backup: a copy of a store in use up to one commit, in files beside those of the earlier backup.

Messages are copied in slices, without holding a view of the store, until little is left. The rest is copied under one
view, whose commit is the last of the backup. Messages that the broker forgets meanwhile are below the heads of that
commit. The earlier backup stays whole until the new manifest replaces its manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from penstock.broker.facts import Published
from penstock.errors import FailedPreconditionError
from penstock.journal.backup.checking import Recovery, check_backup, is_needed, recover_file
from penstock.journal.backup.disk import Disk
from penstock.journal.backup.folder import number_of, open_folder, require_room
from penstock.journal.backup.history import copied_ends, require_same_history
from penstock.journal.backup.manifest import FORMAT, Manifest, RowFile, report_of, write_manifest
from penstock.journal.backup.rows import RowFileWriter
from penstock.journal.codec import BATCH_ROW, FACTS_ROW, SNAPSHOT_ROW, Row, check_batch
from penstock.journal.port import BackupProgress, BackupReport, StoreRows

FILE_BYTES = 64 << 20
SMALL_BYTES = 4 << 20  # a round that copies less is followed by the view
ROUNDS_MAX = 20  # rounds before the view, however much is left


def write_backup(
    rows: StoreRows,
    folder: Path,
    *,
    now: int,
    progress: Callable[[BackupProgress], None],
    rest: Callable[[], None] = lambda: None,
    disk: Disk | None = None,
) -> BackupReport:
    """Bring the backup in a folder up to date, or begin one. `now`: nanoseconds since 1970. `rest` is called between
    slices while there is time, so that others can use the disk and the processors."""
    disk = disk or Disk()
    with open_folder(folder, disk) as earlier:
        copy = _Copy(rows, folder, earlier, disk, progress, rest)
        try:
            return copy.run(now)
        except BaseException:
            copy.discard()
            raise


class _Copy:
    """One run. The numbers of its files continue from the earlier backup."""

    def __init__(
        self,
        rows: StoreRows,
        folder: Path,
        earlier: Manifest | None,
        disk: Disk,
        progress: Callable[[BackupProgress], None],
        rest: Callable[[], None],
    ) -> None:
        self._rows, self._folder, self._earlier, self._disk, self._progress = rows, folder, earlier, disk, progress
        self._rest, self._hurries = rest, False
        self._recovery = Recovery()
        self._reached: dict[int, int] = {}  # topic -> the offset up to which its messages are in the backup
        self._messages: RowFileWriter | None = None
        self._message_files: list[RowFile] = []
        self._state: RowFileWriter | None = None
        self._state_before: list[RowFile] = []  # files of the earlier backup with the first facts
        self._created: list[Path] = []
        self._number = max([number_of(file.name) for file in earlier.files], default=0) if earlier else 0
        self._total = rows.size_bytes()
        self._copied = 0

    def run(self, now: int) -> BackupReport:
        if not self._take_over():
            self._begin_at_snapshot()
            self._copy_topics(None)
        for _ in range(ROUNDS_MAX):
            before = self._copied
            self._copy_commits()
            self._hurries = True  # copy faster than new commits come
            if self._copied - before <= SMALL_BYTES:
                break
        with self._rows.view():
            self._copy_commits()
        return self._finish(now)

    def discard(self) -> None:
        """Remove what this run has written."""
        for writer in (self._messages, self._state):
            if writer is not None:
                writer.close()
        for path in self._created:
            self._disk.remove(path)

    def _take_over(self) -> bool:
        """Take over the messages of the earlier backup. Return whether its facts were taken over, too."""
        earlier = self._earlier
        if earlier is None:
            return False
        require_same_history(earlier, self._rows)
        self._reached = {topic: run.until for topic, run in copied_ends(earlier).items()}
        snapshot = self._rows.snapshot()
        if snapshot is not None and snapshot[0] > earlier.commit:  # it replaces the earlier facts
            return False
        self._state_before = earlier.state
        for file in earlier.state:
            recover_file(self._folder, file, self._recovery)
        return True

    def _copy_commits(self) -> None:
        """Copy the facts so far and their messages. Later ones are for the next round, or this might never end."""
        topics: set[int] | None = set()
        end = self._rows.last_commit()
        while self._recovery.commit < end and (rows := self._rows.facts(self._recovery.commit)):
            if rows[0][0] != self._recovery.commit + 1:  # the facts in between were deleted after two snapshots
                self._begin_at_snapshot()
                topics = None
                continue
            if self._state is None:
                self._state = self._create("state")
            for row in rows:
                facts = self._recovery.add(row)
                self._state.add(FACTS_ROW, row)
                if topics is not None:
                    topics.update(fact.topic for fact in facts if type(fact) is Published)
            self._note(sum(len(row[2]) for row in rows))
        self._copy_topics(topics)

    def _begin_at_snapshot(self) -> None:
        self._recovery, self._state_before = Recovery(), []
        if self._state is not None:
            self._state.close()  # removed at the end
            self._state = None
        snapshot, facts = None, list[Row]()
        while (newest := self._rows.snapshot()) != snapshot:  # until there is no newer one
            snapshot, facts = newest, self._rows.facts(newest[0] - 1)[:1] if newest else []
        if snapshot is not None:
            self._recovery.begin(snapshot, facts)
            self._state = self._create("state")
            self._state.add(SNAPSHOT_ROW, snapshot)
            self._state.add(FACTS_ROW, *facts)
            self._note(len(snapshot[2]))

    def _copy_topics(self, topics: set[int] | None) -> None:
        """Copy the new batches of these topics. None: of all topics."""
        for topic in self._stored_topics() if topics is None else sorted(topics):
            first, end = self._reached.get(topic, 0), self._rows.end(topic)
            while first < end and (rows := self._rows.batches(topic, first)):
                for row in rows:
                    check_batch(row)
                    self._open_messages().add(BATCH_ROW, row)
                self._reached[topic] = first = rows[-1][1]
                self._note(sum(len(row[4]) for row in rows))

    def _stored_topics(self) -> Iterator[int]:
        topic = 0
        while (batch := self._rows.next_batch(topic, 0)) is not None:
            yield batch.topic
            topic = batch.topic + 1

    def _open_messages(self) -> RowFileWriter:
        if self._messages is not None and self._messages.bytes >= FILE_BYTES:
            self._message_files.append(self._messages.finish())
            self._messages = None
        if self._messages is None:
            self._messages = self._create("messages")
        return self._messages

    def _create(self, what: str) -> RowFileWriter:
        self._number += 1
        self._created.append(self._folder / f"{what}-{self._number:06}.rows")
        return RowFileWriter(self._created[-1], self._disk)

    def _note(self, size: int) -> None:
        self._copied += size
        require_room(self._folder, self._disk)
        self._progress(BackupProgress("copying", self._copied, max(self._copied, self._total)))
        if not self._hurries:
            self._rest()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self, now: int) -> BackupReport:
        earlier, recovery = self._earlier, self._recovery
        if not recovery.commit:
            raise FailedPreconditionError("Nothing was ever stored here, so there is nothing to back up.")
        state_files = [*self._state_before, *([self._state.finish()] if self._state else [])]
        self._message_files += [self._messages.finish()] if self._messages else []
        self._messages = self._state = None
        taken_over = earlier.batches if earlier else []
        batches = [*taken_over, *self._message_files]
        topics = recovery.state.topics
        manifest = Manifest(
            format=FORMAT,
            store=recovery.state.identity,
            number=earlier.number + 1 if earlier else 1,
            at=recovery.at,
            time=datetime.fromtimestamp(now // 10**9, UTC).isoformat().replace("+00:00", "Z"),
            commit=recovery.commit,
            crc=recovery.crc,
            topics=len(topics),
            messages=sum(topic.tail - topic.head for topic in topics.values()),
            state=state_files,
            batches=[file for file in batches if any(is_needed(recovery.state, run) for run in file.runs)],
        )
        self._disk.sync_path(self._folder)
        self._check(manifest, {file.name for file in taken_over})
        created, self._created = self._created, []  # not discarded from here on, as they may be part of the backup
        write_manifest(manifest, self._folder, self._disk)
        old = {file.name for file in earlier.files} if earlier else set()
        for name in {*old, *(path.name for path in created)} - {file.name for file in manifest.files}:
            self._disk.remove(self._folder / name)
        return report_of(manifest, sum(file.bytes for file in manifest.files if file.name not in old))

    def _check(self, manifest: Manifest, unread: set[str]) -> None:
        total = sum(file.bytes for file in manifest.files if file.name not in unread)
        done = 0

        def progress(size: int) -> None:
            nonlocal done
            done += size
            self._progress(BackupProgress("checking", done, total))
            self._rest()

        check_backup(manifest, self._folder, unread=unread, progress=progress)
