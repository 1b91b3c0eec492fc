"""The format of log lines: each entry is one line, in text and in JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable

import pytest

from penstock.logs import JsonLines, set_up_logging
from penstock.settings import Settings
from penstock.wire.request_log import RequestLine


@pytest.fixture
def logged() -> Callable[[str, str], str]:
    """Return the output of one log call in the given format."""

    def write(log_format: str, text: str) -> str:
        stream = io.StringIO()
        root = logging.getLogger()
        before = root.handlers[:], root.level
        try:
            set_up_logging(Settings(log_format=log_format), stream)
            logging.getLogger("penstock.test").info("said %s", text)
        finally:
            root.handlers[:], level = before
            root.setLevel(level)
        return stream.getvalue()

    return write


HOSTILE = "a\r\n2025-01-01 ERROR forged\x1b[2J\x9b\u2028\x00"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_log_line_is_one_line_whatever_a_peer_sends(logged: Callable[[str, str], str], log_format: str) -> None:
    line = logged(log_format, HOSTILE)
    assert line.endswith("\n")
    assert line.removesuffix("\n").isprintable()
    assert "forged" in line


def test_json_lines_are_json_and_keep_the_text(logged: Callable[[str, str], str]) -> None:
    line = json.loads(logged("json", HOSTILE))
    assert line["message"] == f"said {HOSTILE}"
    assert (line["level"], line["logger"]) == ("info", "penstock.test")
    assert line["at"].endswith("Z")


def test_a_request_is_words_in_text_and_fields_in_json() -> None:
    """Names that clients chose are one word each, and cannot add to a line."""
    line = RequestLine("text", "send", "my queue", "ok", 12, {"messages": 2})
    assert str(line) == 'text send "my queue" ok 12us messages=2'
    forged = RequestLine("text", "send", "a ok 1us\n2026 ERROR forged", "ok", 12)
    assert str(forged) == 'text send "a ok 1us\\n2026 ERROR forged" ok 12us'
    record = logging.LogRecord("penstock.requests", logging.INFO, "", 0, line, (), None)
    written = json.loads(JsonLines().format(record))
    assert written.pop("at")
    assert written == {
        "level": "info",
        "logger": "penstock.requests",
        "door": "text",
        "verb": "send",
        "resource": "my queue",
        "result": "ok",
        "microseconds": 12,
        "messages": 2,
    }
