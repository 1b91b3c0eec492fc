-- Every statement the SQLite journal runs. Rows are found by their rowid only: there is no secondary index, and
-- no statement may scan (tests/conformance/journal asserts the plans).

-- create_facts --
-- One row per commit. crc covers seq and body.
CREATE TABLE facts (seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL)

-- create_batches --
-- One row per topic and commit. id is names.log_key(topic, first offset), so the rows of a topic lie side by side
-- in offset order; last_at is the publish time of the last message. crc covers id, until, last_at and body.
CREATE TABLE batches (
    id INTEGER PRIMARY KEY, until INTEGER NOT NULL, last_at INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL
)

-- create_snapshots --
-- The state after commit seq. crc covers seq and body.
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL)

-- begin --
BEGIN IMMEDIATE

-- commit --
COMMIT

-- rollback --
ROLLBACK

-- add_facts --
INSERT INTO facts (seq, crc, body) VALUES (?, ?, ?)

-- add_batch --
INSERT INTO batches (id, until, last_at, crc, body) VALUES (?, ?, ?, ?, ?)

-- add_snapshot --
INSERT INTO snapshots (seq, crc, body) VALUES (?, ?, ?)

-- last_seq --
SELECT seq FROM facts ORDER BY seq DESC LIMIT 1

-- facts_after --
SELECT seq, crc, body FROM facts WHERE seq > ? ORDER BY seq

-- snapshots_newest --
SELECT seq, crc, body FROM snapshots ORDER BY seq DESC LIMIT 2

-- snapshot_seqs --
SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2

-- last_snapshot_seq --
SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 1

-- drop_snapshots_below --
DELETE FROM snapshots WHERE seq < ?

-- facts_until --
-- The sizes of a slice of facts that the older snapshot makes superfluous; length() does not load the body.
SELECT seq, length(body) FROM facts WHERE seq <= ? ORDER BY seq LIMIT 512

-- drop_facts_until --
DELETE FROM facts WHERE seq <= ?

-- read_batches --
-- From the batch that holds the first offset wanted (the last one that starts at or below it) up to the end.
SELECT id, until, last_at, crc, body FROM batches
WHERE id >= coalesce((SELECT id FROM batches WHERE id BETWEEN :topic AND :first ORDER BY id DESC LIMIT 1), :first)
  AND id <= :last
ORDER BY id

-- last_batch_between --
SELECT id, until, last_at, crc, body FROM batches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1

-- last_id_between --
SELECT id FROM batches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1

-- next_id --
SELECT id FROM batches WHERE id >= ? ORDER BY id LIMIT 1

-- batches_between --
-- Which batches a slice of forgetting may take, with their sizes.
SELECT id, until, length(body) FROM batches WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 256

-- drop_batches_between --
DELETE FROM batches WHERE id BETWEEN ? AND ?

-- batches_from --
SELECT id, until, last_at, crc, body FROM batches WHERE id BETWEEN ? AND ? ORDER BY id

-- next_seal --
-- Without the body, which is not loaded.
SELECT id, until, crc FROM batches WHERE id >= ? ORDER BY id LIMIT 1

-- last_until_between --
SELECT until FROM batches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1
