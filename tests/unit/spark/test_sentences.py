"""The sentence taken from errors of Spark 4.3."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgumentError
from penstock.spark.sentences import LONGEST, sentence_of

OURS = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Error from Python data source `penstock`:
Traceback (most recent call last):
  File "/x/streaming.py", line 7, in initialOffset
    raise error
pyspark_penstock.errors.PenstockError: penstock: there is no topic projects/p/topics/t
 SQLSTATE: XXKST
\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: org.apache.spark.SparkException: [PYTHON_DATA_SOURCE_ERROR] Failed when Python works. SQLSTATE: 38000
"""

PYTHON = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
Traceback (most recent call last):
  File "/x/worker.py", line 2000, in main
    process()
  File "/y/turning.py", line 5, in backwards
    return text[::-1] + 7
TypeError: can only concatenate str (not "int") to str
\tat org.apache.spark.api.python.Runner.handle(Runner.scala:1)
"""

CAUSED = """Writing job aborted
\tat org.apache.spark.Frame
Caused by: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Frame
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.Frame
"""

ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `datta` cannot be resolved. Did you mean one of [`data`]. SQLSTATE: 42703; line 1 pos 7;
'Project ['datta]
+- SubqueryAlias source
"""  # noqa: E501

CLASSED = """[STREAM_FAILED] Query [id = 1] terminated with exception: [USER_RAISED_EXCEPTION] bad luck SQLSTATE: P0001
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] bad luck SQLSTATE: P0001
"""


UNWRITABLE = """An error occurred while calling o207.start.
: java.io.IOException: mkdir of file:/data/out failed
\tat org.apache.hadoop.fs.FileSystem.primitiveMkdir(FileSystem.java:1)
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (OURS, "there is no topic projects/p/topics/t"),
        (PYTHON, 'can only concatenate str (not "int") to str (TypeError)'),
        (CAUSED, "No space left on device (IOException)"),
        (ANALYSIS, "A column with name `datta` cannot be resolved. Did you mean one of [`data`]."),
        (CLASSED, "bad luck"),
        (UNWRITABLE, "mkdir of file:/data/out failed (IOException)"),
        ("\n  something else\nand more", "something else"),
        ("", "the error has no message"),
    ],
)
def test_the_innermost_cause(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence


def test_our_errors_are_used_unchanged() -> None:
    assert sentence_of(InvalidArgumentError("there is no file x")) == "there is no file x"


def test_an_error_without_a_message_is_named_by_its_class() -> None:
    assert sentence_of(KeyError()) == "KeyError"


def test_a_long_sentence_is_cut() -> None:
    assert len(sentence_of("x" * 10_000)) == LONGEST
