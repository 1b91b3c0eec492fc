"""Bytes in, requests out; answers in, bytes out, without I/O.

However the bytes are cut, the same requests come out in the same order, and each content is copied once. A message
that begins like the one before it, which is what a busy client sends, is read by comparing its beginning with that
one's; everything else goes part by part through the FrameReader.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from penstock.doors.text.requests import Acknowledge, Fault, Request, Send, interpret
from penstock.wire import textframes as t
from penstock.wire.textframes import DIGITS, ID_BYTES  # of the inner loops

Event: TypeAlias = Request | Fault

REMEMBERED_MAX = 64  # beginnings of messages

_NO_ID_LENGTH = b"%033d" % ID_BYTES
_KIND_BYTES = 3  # P and the type of a package
_NAME_LENGTH_AT = t.HEADER_BYTES + _KIND_BYTES


NONE_YET: dict[bytes, tuple[bytes, Send | Acknowledge]] = {}  # shared by connections before a send; never written to


class Decoder:
    """The requests of one client."""

    __slots__ = ("_content_max", "_opening", "_openings", "_reader", "_run", "broken")

    def __init__(self, maxima: t.Maxima) -> None:
        self._reader = t.FrameReader(maxima)
        self._content_max = maxima[t.SEND][t.CONTENT]
        self._opening = b""  # how the last send or acknowledgement began, up to the length of its second package
        self._run: Send | Acknowledge | None = None  # and what it was, without its contents
        self._openings: dict[bytes, tuple[bytes, Send | Acknowledge]] = NONE_YET
        self.broken = False  # the stream cannot be followed any further

    @property
    def line(self) -> bool:
        """Whether answers are to be in line framing."""
        return bool(self._reader.line)

    @property
    def version(self) -> int:
        return self._reader.version

    @property
    def between(self) -> bool:
        """Whether the client has said nothing, or whole messages only."""
        return self._reader.between

    @property
    def held_bytes(self) -> int:
        """What is kept of a message that is not whole yet."""
        return self._reader.held_bytes

    def forget(self) -> None:
        """Reading ends."""
        self._reader.forget()

    @property
    def refused(self) -> int:
        return self._reader.refused

    def feed(self, data: bytes) -> list[Event]:
        """What the client said with these bytes. A fault that breaks the stream comes last."""
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
            if self._run is not None and reader.between:
                at = self._repeat_known(data, at, events)
                if at == end:
                    break
            frame, at = reader.read(data, at)
            if frame is not None:
                event = interpret(frame)
                _join(events, event)
                if isinstance(event, (Send, Acknowledge)) and frame.packages[0][0] == t.QUEUE:
                    self._expect_more(event)

    def _expect_more(self, event: Send | Acknowledge) -> None:
        run, line = self._run, self.line
        if run is not None and type(run) is type(event) and run[:2] == event[:2]:
            return
        if isinstance(event, Send):
            self._run = Send(event.version, event.queue, [])
            opening = self._opening = t.encode_opening(event.version, t.SEND, event.queue, 2, t.CONTENT, line=line)
        else:
            self._run = Acknowledge(event.version, event.queue, [])
            opening = t.encode_opening(event.version, t.ACKNOWLEDGE, event.queue, 2, t.ID, line=line)
            self._opening = opening + _NO_ID_LENGTH + (b"\n" if line else b"")
        if self._openings is NONE_YET or len(self._openings) >= REMEMBERED_MAX:
            self._openings = {}
        self._openings[opening] = (self._opening, self._run)

    def _repeat_known(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read messages that begin like any of the last ones, as far as they are whole."""
        end, before, reader = len(data), -1, self._reader
        while before < at < end:
            if reader.owes_line_feed:
                at = reader.pass_line_feed(data, at)
            before = at
            if data.startswith(self._opening, at) or self._recall(data, at):
                at = self._repeat(data, at, events)
        return at

    def _recall(self, data: bytes, at: int) -> bool:
        """Whether this message begins like one before the last; then more of its kind are expected."""
        gap = int(self.line)
        start = at + _NAME_LENGTH_AT + gap
        digits = data[start : start + DIGITS]
        if not digits.isdigit():
            return False
        known = self._openings.get(data[at : start + DIGITS + gap + int(digits) + gap + _KIND_BYTES])
        if known is None:
            return False
        self._opening, self._run = known
        return True

    def _repeat(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read messages that begin like the one before."""
        found: list[bytes] = []
        run = self._run
        assert run is not None, "there was one before"
        repeat = self._repeat_sends if type(run) is Send else self._repeat_acknowledgements
        at = repeat(data, at, found)
        if found:
            _join(events, type(run)(run.version, run.queue, found))
        return at

    def _repeat_sends(self, data: bytes, at: int, found: list[bytes]) -> int:
        opening, most, gap, end = self._opening, self._content_max, int(self.line), len(data)
        before, known, length = len(opening), b"", 0
        while data.startswith(opening, at):
            start = at + before + DIGITS
            digits = data[at + before : start]
            if digits != known:
                if len(digits) < DIGITS or not digits.isdigit():
                    break
                known, length = digits, int(digits)
            start += gap
            stop = start + length
            if stop > end or length > most or (gap and data[start - 1] != 10):
                break
            found.append(data[start:stop])
            at = stop
            if gap:
                at = self._reader.find_line_feed(data, at)
                if self._reader.owes_line_feed:
                    break
        return at

    def _repeat_acknowledgements(self, data: bytes, at: int, found: list[bytes]) -> int:
        opening, gap, end = self._opening, int(self.line), len(data)
        before = len(opening)
        stop = at + before + ID_BYTES
        while stop <= end and data.startswith(opening, at):
            found.append(data[at + before : stop])
            at = stop
            if gap:
                at = self._reader.find_line_feed(data, at)
                if self._reader.owes_line_feed:
                    break
            stop = at + before + ID_BYTES
        return at


def _join(events: list[Event], event: Event) -> None:
    """Add an event, or let the one before it grow."""
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
    """What the endpoint says about one queue, in one version and framing: everything but ids and contents is ready."""

    __slots__ = ("_confirm", "_dispatch")

    def __init__(self, queue: bytes, version: int, line: bool) -> None:
        name = queue.replace(b"%", b"%%")
        gap = b"\n" if line else b""
        # The length of the name is written for the name, not for its doubled signs.
        length = t.package_header(t.QUEUE, len(queue))
        closing = t.package_header(t.ID, ID_BYTES) + gap
        confirm = gap.join((b"H%02d%03d02" % (version, t.CONFIRM), length, name, closing + b"%032x" + gap))
        dispatch = gap.join(
            (b"H%02d%03d03" % (version, t.DISPATCH), length, name, b"P%02d%%033d" % t.CONTENT, b"%b", b"")
        )
        self._confirm = confirm
        self._dispatch = dispatch + closing + b"%b" + gap

    def confirm(self, first: int, count: int) -> bytes:
        """Confirmations of consecutive messages."""
        return self._confirm * count % tuple(range(first, first + count))

    def dispatch(self, ids: Sequence[bytes], contents: Sequence[bytes]) -> bytes:
        values = chain.from_iterable(zip(map(len, contents), contents, ids, strict=True))
        return self._dispatch * len(ids) % tuple(values)


def id_texts(numbers: Sequence[int]) -> list[bytes]:
    """T-013: message ids, all in one go because that costs half."""
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
