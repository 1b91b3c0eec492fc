"""The HTTP/1.1 parser: any bytes in any chunks lead to requests or refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http1_message import Request
from penstock.wire.http1_reader import Arrival, HttpLimits, Refusal, RequestReader, Stage, Turn

SMALL = HttpLimits(body_bytes_max=100, head_bytes_max=500, headers_max=8)


def read(data: bytes, limits: HttpLimits = SMALL, step: int = 0) -> list[Turn]:
    reader = RequestReader(limits, "192.0.2.1")
    step = step or max(1, len(data))
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader.turns


def requests(turns: list[Turn]) -> list[Request]:
    assert all(isinstance(turn, Arrival) for turn in turns), turns
    return [turn.request for turn in turns if isinstance(turn, Arrival)]


def message(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*lines, "", ""]).encode() + body


GET = message("GET /a%20b?x=1&y HTTP/1.1", "Host: h", "X-Thing: One")
PUT = message("PUT /p HTTP/1.1", "Host: h", "Content-Length: 5", body=b"hello")
CHUNKED = message("POST /c HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")


@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_request_is_read_whole_however_it_is_cut(step: int) -> None:
    first, second, third = requests(read(GET + PUT + CHUNKED, step=step))
    assert (first.method, first.path, first.query, first.peer) == ("GET", "/a%20b", "x=1&y", "192.0.2.1")
    assert first.headers == [("host", "h"), ("x-thing", "One")]
    assert [name.lower() for name in first.spelled] == [b"host", b"x-thing"]
    assert b"Host" in first.spelled
    assert first.header("x-thing") == "One"
    assert first.header("missing", "nothing") == "nothing"
    assert (second.method, second.body) == ("PUT", b"hello")
    assert (third.path, third.body) == ("/c", b"abcde")


def test_a_proxy_form_target_is_reduced_to_its_path() -> None:
    (request,) = requests(read(message("GET http://h:80/p?q HTTP/1.1", "Host: h")))
    assert (request.path, request.query) == ("/p", "q")


def test_trailers_do_not_become_headers() -> None:
    body = b"1\r\na\r\n0\r\nHost: evil\r\n\r\n"
    (request,) = requests(read(message("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=body)))
    assert request.headers == [("host", "h"), ("transfer-encoding", "chunked")]


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (["GET / HTTP/1.1", "Host: h"], True),
        (["GET / HTTP/1.1", "Host: h", "Connection: close"], False),
        (["GET / HTTP/1.1", "Host: h", "Connection: foo, close"], False),
        (["GET / HTTP/1.0"], False),
        (["GET / HTTP/1.0", "Connection: Keep-Alive"], True),
    ],
)
def test_keep_alive_follows_the_request(head: list[str], keep_alive: bool) -> None:
    (turn,) = read(message(*head))
    assert isinstance(turn, Arrival)
    assert turn.keep_alive is keep_alive


def test_nothing_is_read_after_the_last_request() -> None:
    assert len(read(message("GET / HTTP/1.1", "Host: h", "Connection: close") + GET)) == 1


UPGRADE = ["Host: h", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]


@pytest.mark.parametrize("step", [0, 1])
def test_an_offered_upgrade_is_declined_and_the_request_answered(step: int) -> None:
    with_length = message("PUT /l HTTP/1.1", *UPGRADE, "Content-Length: 5", body=b"hello")
    with_chunks = message("PUT /c HTTP/1.1", *UPGRADE, "Transfer-Encoding: chunked", body=b"2\r\nhi\r\n0\r\n\r\n")
    without = message("GET /g HTTP/1.1", *UPGRADE)
    found = requests(read(with_length + with_chunks + without + GET, step=step))
    assert [(r.method, r.path, r.body) for r in found] == [
        ("PUT", "/l", b"hello"),
        ("PUT", "/c", b"hi"),
        ("GET", "/g", b""),
        ("GET", "/a%20b", b""),
    ]
    assert ("upgrade", "h2c") in found[0].headers


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),  # a TLS greeting
        (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nbad header\r\n\r\n"),
        (400, message("GET / HTTP/1.1")),  # no host
        (400, message("GET / HTTP/1.1", "Host: a", "Host: b")),
        (400, message("PUT / HTTP/1.1", "Host: h", "Content-Length: 1", "Content-Length: 1", body=b"x")),
        (
            400,
            message("PUT / HTTP/1.1", "Host: h", "Content-Length: 1", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        ),
        (400, message("PUT / HTTP/1.1", "Host: h", "Content-Length: -1")),
        (400, message("PUT / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=b"zz\r\n")),
        (413, message("PUT / HTTP/1.1", "Host: h", "Content-Length: 101")),
        (413, message("PUT / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=b"65\r\n" + b"x" * 101)),
        (415, message("PUT / HTTP/1.1", "Host: h", "Content-Encoding: gzip", "Content-Length: 1", body=b"x")),
        (417, message("PUT / HTTP/1.1", "Host: h", "Expect: miracles", "Content-Length: 1", body=b"x")),
        (431, message("GET / HTTP/1.1", "Host: h", *[f"H{n}: v" for n in range(8)])),
        (501, message("CONNECT h:443 HTTP/1.1", "Host: h")),
        (501, message("PUT / HTTP/1.1", "Host: h", "Transfer-Encoding: gzip, chunked")),
        (505, message("GET / HTTP/2.0", "Host: h")),
    ],
)
@pytest.mark.parametrize("step", [0, 3])
def test_an_invalid_request_is_refused_and_ends_the_connection(status: int, data: bytes, step: int) -> None:
    assert read(data + GET, step=step)[-1] == Refusal(status)


CHUNKED_HEAD = message("PUT / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: " + b"h" * 600,
        b"GET /" + b"a" * 600,
        b"\r\n" * 300,
        CHUNKED_HEAD + b"1;" + b"e" * 600,
        CHUNKED_HEAD + b"0\r\nT: " + b"t" * 600,
    ],
    ids=["header", "target", "empty lines", "chunk extension", "trailer"],
)
def test_heads_and_trailers_beyond_the_limit_are_refused_before_they_are_stored(data: bytes) -> None:
    assert read(data, step=50) == [Refusal(431)]


@pytest.mark.parametrize("step", [0, 1, 50, 490, 499])
@pytest.mark.parametrize("before", [b"", GET, PUT], ids=["first", "after a get", "after a put"])
@pytest.mark.parametrize("behind", [b"", b"x" * 40], ids=["no body", "body"])
def test_the_size_of_a_head_is_exact_however_it_is_cut(step: int, before: bytes, behind: bytes) -> None:
    """A head of the maximum size passes, and one byte more does not, even if its end is in the piece that exceeds
    it.
    """

    def head(size: int) -> bytes:
        bare = message("PUT / HTTP/1.1", "Host: h", f"Content-Length: {len(behind)}", "X: ")
        return bare[:-4] + b"x" * (size - len(bare)) + b"\r\n\r\n"

    assert isinstance(read(before + head(500) + behind, step=step)[-1], Arrival)
    assert read(before + head(501) + behind, step=step)[-1] == Refusal(431)


def test_continue_is_owed_until_the_body_arrives() -> None:
    reader = RequestReader(SMALL, "")
    reader.feed(message("PUT / HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 5"))
    assert reader.continue_owed
    reader.feed(b"hello")
    assert not reader.continue_owed
    assert requests(reader.turns)[0].body == b"hello"


def test_the_stage_follows_the_message() -> None:
    reader = RequestReader(SMALL, "")
    stages = [reader.stage]
    for part in (b"GE", b"T / HTTP/1.1\r\n", b"Host: h\r\nContent-Length: 2\r\n\r\n", b"a", b"b", b"?"):
        reader.feed(part)
        stages.append(reader.stage)
    waiting, head, body, closed = Stage.WAITING, Stage.HEAD, Stage.BODY, Stage.CLOSED
    assert stages == [waiting, head, head, body, body, waiting, closed]


PIECES = [GET, PUT, CHUNKED, message("GET / HTTP/1.1", *UPGRADE), b"\r\n", b"Content-Length: 99999999999999999999\r\n"]


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.sampled_from(PIECES), st.sampled_from(PIECES).map(lambda p: p[:-3]))),
    st.integers(1, 40),
)
def test_any_bytes_give_turns_and_never_an_exception(parts: list[bytes], step: int) -> None:
    turns = read(b"".join(parts), step=step)
    assert [turn for turn in turns[:-1] if isinstance(turn, Refusal)] == []  # a refusal is always the last


@given(st.lists(st.sampled_from(PIECES[:4]), max_size=5), st.integers(1, 200))
def test_cutting_the_bytes_differently_changes_nothing(parts: list[bytes], step: int) -> None:
    data = b"".join(parts)
    assert read(data, step=step) == read(data)


@pytest.mark.parametrize(
    ("path", "length", "fits"), [("/a", 101, False), ("/big/x", 150, True), ("/big/x", 151, False)]
)
def test_some_paths_may_have_larger_bodies(path: str, length: int, fits: bool) -> None:
    limits = HttpLimits(body_bytes_max=100, large_bodies=(b"/big/", 150))
    data = message(f"PUT {path} HTTP/1.1", "Host: h", f"Content-Length: {length}", body=b"x" * length)
    (turn,) = read(data, limits)
    assert isinstance(turn, Arrival) is fits
    chunked = message(f"PUT {path} HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")
    (turn,) = read(chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (length, b"x" * length), limits)[:1]
    assert isinstance(turn, Arrival) is fits
