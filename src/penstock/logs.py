"""Log lines of the process: the loggers are the standard library's, and are made visible only here."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, TextIO

from penstock.wire.requestlog import LOGGER, RequestLine

if TYPE_CHECKING:
    from penstock.settings import Settings

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def escape_controls(text: str) -> str:
    """One line, whatever the text: a peer cannot add lines to a log, nor colours to a terminal."""
    return text if text.isprintable() else text.translate(_CONTROLS)


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


class JsonLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        line |= record.msg.fields() if isinstance(record.msg, RequestLine) else {"message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # ASCII only, so every control character is escaped


def set_up_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Log lines of the whole process go to standard error; standard output belongs to the banner."""
    lines = logging.StreamHandler(stream or sys.stderr)
    lines.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [lines]
    root.setLevel(settings.log_level.upper())
    if settings.log_requests:  # whoever asks for them gets them at every level
        logging.getLogger(LOGGER).setLevel(logging.INFO)


def also_log_to(path: str) -> None:
    """Every line down to debug, and of every request, goes to a file as well; standard error has what it had.

    OSError if it cannot be.
    """
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(TextLines())
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
        handler.addFilter(lambda record: record.name != LOGGER)
    root.addHandler(file)
    root.setLevel(logging.DEBUG)
