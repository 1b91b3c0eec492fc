"""The codec of the text protocol: bytes to requests, and answers to bytes, without I/O.

The same bytes in any chunking give the same requests in the same order, and each content is copied once. Most messages
of a busy client begin like the message before. The decoder compares these beginnings. All other messages are read part
by part by the FrameReader.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from penstock.doors.text.requests import Acknowledge, Fault, Request, Send, interpret
from penstock.wire import text_frames as t
from penstock.wire.text_frames import DIGITS, ID_BYTES  # used in inner loops

Event: TypeAlias = Request | Fault

REMEMBERED_MAX = 64  # openings

_NO_ID_LENGTH = b"%033d" % ID_BYTES
_TYPE_BYTES = 3  # P and the type of a package
_NAME_LENGTH_AT = t.HEADER_BYTES + _TYPE_BYTES

# Shared by all connections that have sent nothing yet. Never written to.
NONE_YET: dict[bytes, tuple[bytes, Send | Acknowledge]] = {}


class Decoder:
    """The requests of one client.

    An opening is the beginning of a send or an acknowledgement, up to the length of the second package. A pattern is
    such a request without contents.
    """

    __slots__ = ("_content_max", "_opening", "_openings", "_pattern", "_reader", "broken")

    def __init__(self, maxima: t.Maxima) -> None:
        self._reader = t.FrameReader(maxima)
        self._content_max = maxima[t.SEND][t.CONTENT]
        self._opening = b""  # of the last send or acknowledgement
        self._pattern: Send | Acknowledge | None = None  # of the last send or acknowledgement
        self._openings: dict[bytes, tuple[bytes, Send | Acknowledge]] = NONE_YET
        self.broken = False  # after a FrameError nothing more can be read

    @property
    def line(self) -> bool:
        """Whether the client uses line framing."""
        return bool(self._reader.line)

    @property
    def version(self) -> int:
        return self._reader.version

    @property
    def between(self) -> bool:
        """Whether no message is incomplete."""
        return self._reader.between

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept of an incomplete message."""
        return self._reader.held_bytes

    def forget(self) -> None:
        """Drop the incomplete message."""
        self._reader.forget()

    @property
    def refused(self) -> int:
        return self._reader.refused

    def feed(self, data: bytes) -> list[Event]:
        """Return the requests and faults in these bytes. A fault that ends reading comes last."""
        events: list[Event] = []
        try:
            self._feed(data, events)
        except t.FrameError as error:
            self.broken = True
            events.append(Fault(error.version, error.code, error.sentence, error.refused))
        return events

    def _feed(self, data: bytes, events: list[Event]) -> None:
        at, end, reader = 0, len(data), self._reader
        while at < end:
            if self._pattern is not None and reader.between:
                at = self._read_alike(data, at, events)
                if at == end:
                    break
            frame, at = reader.read(data, at)
            if frame is not None:
                event = interpret(frame)
                _join(events, event)
                if isinstance(event, (Send, Acknowledge)) and frame.packages[0][0] == t.QUEUE:
                    self._remember(event)

    def _remember(self, event: Send | Acknowledge) -> None:
        """Expect more messages that begin like this one."""
        pattern, line = self._pattern, self.line
        if pattern is not None and type(pattern) is type(event) and pattern[:2] == event[:2]:
            return
        if isinstance(event, Send):
            self._pattern = Send(event.version, event.queue, [])
            opening = self._opening = t.encode_opening(event.version, t.SEND, event.queue, 2, t.CONTENT, line=line)
        else:
            self._pattern = Acknowledge(event.version, event.queue, [])
            opening = t.encode_opening(event.version, t.ACKNOWLEDGE, event.queue, 2, t.ID, line=line)
            self._opening = opening + _NO_ID_LENGTH + (b"\n" if line else b"")
        if self._openings is NONE_YET or len(self._openings) >= REMEMBERED_MAX:
            self._openings = {}
        self._openings[opening] = (self._opening, self._pattern)

    def _read_alike(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read complete messages that begin like an earlier message. Return the offset of the rest."""
        end, before, reader = len(data), -1, self._reader
        while before < at < end:
            if reader.owes_line_feed:
                at = reader.pass_line_feed(data, at)
            before = at
            if data.startswith(self._opening, at) or self._recall(data, at):
                at = self._read_run(data, at, events)
        return at

    def _recall(self, data: bytes, at: int) -> bool:
        """Make a remembered opening the current one, if the message begins with it."""
        gap = int(self.line)
        start = at + _NAME_LENGTH_AT + gap
        digits = data[start : start + DIGITS]
        if not digits.isdigit():
            return False
        remembered = self._openings.get(data[at : start + DIGITS + gap + int(digits) + gap + _TYPE_BYTES])
        if remembered is None:
            return False
        self._opening, self._pattern = remembered
        return True

    def _read_run(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read messages that begin with the current opening."""
        contents: list[bytes] = []
        pattern = self._pattern
        assert pattern is not None, "an opening has a pattern"
        read = self._read_sends if type(pattern) is Send else self._read_acknowledgements
        at = read(data, at, contents)
        if contents:
            _join(events, type(pattern)(pattern.version, pattern.queue, contents))
        return at

    def _read_sends(self, data: bytes, at: int, contents: list[bytes]) -> int:
        opening, most, gap, end = self._opening, self._content_max, int(self.line), len(data)
        before, last_digits, length = len(opening), b"", 0
        while data.startswith(opening, at):
            start = at + before + DIGITS
            digits = data[at + before : start]
            if digits != last_digits:
                if len(digits) < DIGITS or not digits.isdigit():
                    break
                last_digits, length = digits, int(digits)
            start += gap
            stop = start + length
            if stop > end or length > most or (gap and data[start - 1] != 10):
                break
            contents.append(data[start:stop])
            at = stop
            if gap:
                at = self._reader.find_line_feed(data, at)
                if self._reader.owes_line_feed:
                    break
        return at

    def _read_acknowledgements(self, data: bytes, at: int, ids: list[bytes]) -> int:
        opening, gap, end = self._opening, int(self.line), len(data)
        before = len(opening)
        stop = at + before + ID_BYTES
        while stop <= end and data.startswith(opening, at):
            ids.append(data[at + before : stop])
            at = stop
            if gap:
                at = self._reader.find_line_feed(data, at)
                if self._reader.owes_line_feed:
                    break
            stop = at + before + ID_BYTES
        return at


def _join(events: list[Event], event: Event) -> None:
    """Add an event, or add its messages to the last event if that is a request of the same kind and queue."""
    last = events[-1] if events else None
    if type(event) is type(last) and event[1] == last[1] and event[0] == last[0]:
        if type(event) is Send and type(last) is Send:
            last.contents.extend(event.contents)
            return
        if type(event) is Acknowledge and type(last) is Acknowledge:
            last.ids.extend(event.ids)
            return
    events.append(event)


# ---------------------------------------------------------------------- answers


class Phrases:
    """The encoded confirmations and dispatches of one queue, in one version and framing, except ids and contents."""

    __slots__ = ("_confirm", "_dispatch")

    def __init__(self, queue: bytes, version: int, line: bool) -> None:
        name = queue.replace(b"%", b"%%")
        gap = b"\n" if line else b""
        length = t.package_header(t.QUEUE, len(queue))  # without the doubled percent signs
        closing = t.package_header(t.ID, ID_BYTES) + gap
        confirm = gap.join((b"H%02d%03d02" % (version, t.CONFIRM), length, name, closing + b"%032x" + gap))
        dispatch = gap.join(
            (b"H%02d%03d03" % (version, t.DISPATCH), length, name, b"P%02d%%033d" % t.CONTENT, b"%b", b"")
        )
        self._confirm = confirm
        self._dispatch = dispatch + closing + b"%b" + gap

    def confirm(self, first: int, count: int) -> bytes:
        """Return the confirmations of consecutive messages."""
        return self._confirm * count % tuple(range(first, first + count))

    def dispatch(self, ids: Sequence[bytes], contents: Sequence[bytes]) -> bytes:
        values = chain.from_iterable(zip(map(len, contents), contents, ids, strict=True))
        return self._dispatch * len(ids) % tuple(values)


def id_texts(numbers: Sequence[int]) -> list[bytes]:
    """T-013: return message ids. One format for all of them takes half the time."""
    text = b"%032x" * len(numbers) % tuple(numbers)
    return [text[at : at + ID_BYTES] for at in range(0, len(text), ID_BYTES)]


def encode_fault(fault: Fault, *, line: bool) -> bytes:
    """T-050."""
    packages = [(t.CODE, fault.code.encode()), (t.SENTENCE, fault.sentence.encode())]
    if fault.refused:
        packages.append((t.REFUSED, b"%03d" % fault.refused))
    if fault.queue:
        packages.append((t.QUEUE, fault.queue))
    if fault.id:
        packages.append((t.ID, fault.id))
    return t.encode(fault.version, t.ERROR, packages, line=line)
