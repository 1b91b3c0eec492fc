"""Log lines of the process, from the loggers of the standard library."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, TextIO

from penstock.terminal import safe_text
from penstock.wire.request_log import LOGGER, RequestLine

if TYPE_CHECKING:
    from penstock.settings import Settings


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return safe_text(super().format(record))


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
    """Write all log lines to standard error. Standard output is for the banner."""
    lines = logging.StreamHandler(stream or sys.stderr)
    lines.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [lines]
    root.setLevel(settings.log_level.upper())
    if settings.log_requests:  # independent of log_level
        logging.getLogger(LOGGER).setLevel(logging.INFO)


def also_log_to(path: str) -> None:
    """Write all log lines, down to debug and with every request, to a file as well.

    Standard error keeps its level. Raise OSError if the file cannot be written.
    """
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(TextLines())
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
        handler.addFilter(lambda record: record.name != LOGGER)
    root.addHandler(file)
    root.setLevel(logging.DEBUG)
