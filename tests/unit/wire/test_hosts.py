"""The names and addresses of this machine, by which every door decides which clients may call."""

from __future__ import annotations

import pytest

from penstock.wire.hosts import HostGuard, host_of, is_forwarded, is_loopback, origin_host

LOOPBACK = [
    "localhost",
    "LocalHost",
    "localhost.",
    "a.localhost",
    "account.queue.localhost",
    "127.0.0.1.localhost",
    "127.0.0.1",
    "127.0.0.1.",
    "127.0.0.0",
    "127.9.9.9",
    "127.255.255.255",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::1%lo",
    "::ffff:127.0.0.1",
    "::ffff:127.9.9.9",
    "::FFFF:7f00:1",
]
ELSEWHERE = [
    "",
    ".",
    "unix",
    "x",
    "example.org",
    "localhost.example.org",
    "localhost.localdomain",
    "notlocalhost",
    "127.0.0.1.example.org",
    "0.0.0.0",
    "10.0.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "169.254.0.1",
    "192.168.1.1",
    "255.255.255.255",
    "::",
    "::2",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "fe80::1",
    "fc00::1",
    "64:ff9b::7f00:1",
    "[::1]",
    "localhost:80",
    "127.0.0.1:80",
    " localhost",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.0.0.1/8",
    "\uff11\uff12\uff17.0.0.1",
    "localhost\0",
    "a" * 100_000 + ".localhost",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_names_that_may_be_another_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        (" LOCALHOST:8080 ", "localhost"),
        ("localhost.:8080", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1"),
        ("", ""),
        (":80", ""),
        ("::1", ""),
        ("[::1", ""),
        ("[::1].evil.example", ""),
        ("[::1]evil.example:80", ""),
        ("evil.example@localhost", "evil.example@localhost"),
        ("localhost/evil.example", "localhost/evil.example"),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_of(header) == name


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("http://localhost:3000", "localhost"),
        ("https://UI.localhost", "ui.localhost"),
        ("http://[::1]:80", "::1"),
        ("http://localhost.evil.example", "localhost.evil.example"),
        ("http://localhost@evil.example", "evil.example"),
        ("null", ""),
        ("file://", ""),
        ("localhost", ""),
        ("http://[", ""),
    ],
)
def test_the_host_of_an_origin(origin: str, name: str) -> None:
    assert origin_host(origin) == name


def test_on_loopback_only_names_of_this_machine_and_configured_ones_are_answered() -> None:
    guard = HostGuard("127.0.0.1", ["Penstock.Test:80"])
    assert all(
        guard.allows(host) for host in ("localhost:1", "[::1]", "a.localhost", "penstock.test", "PENSTOCK.test:9")
    )
    assert not any(guard.allows(host) for host in ("", "evil.example", "x.penstock.test", "10.0.0.1", "0.0.0.0"))


@pytest.mark.parametrize("bound", ["localhost", "::1", "::ffff:127.0.0.1", "127.8.8.8", "box.localhost"])
def test_every_form_of_loopback_is_guarded(bound: str) -> None:
    assert HostGuard(bound).allows("localhost")
    assert not HostGuard(bound).allows("evil.example")


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "10.0.0.1", "broker.example"])
def test_beyond_this_machine_every_host_is_answered(bound: str) -> None:
    assert HostGuard(bound).allows("penstock.example")


def test_a_name_that_leads_to_loopback_alone_is_guarded() -> None:
    guard = HostGuard("Broker.example")
    guard.listens_at(["10.0.0.1", "127.0.0.1"])
    assert guard.allows("evil.example")
    guard.listens_at(["127.0.1.1", "::1"])
    assert not guard.allows("evil.example")
    assert guard.allows("broker.example:80")
    assert guard.allows("127.0.1.1")


@pytest.mark.parametrize(
    "name",
    [
        *("forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-server", "x-forwarded"),
        *("forwarded-for", "x-original-forwarded-for", "true-client-ip", "fastly-client-ip"),
        *(
            "x-envoy-external-address",
            "cloudfront-viewer-address",
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "cdn-loop",
        ),
        *("x-azure-clientip", "x-azure-socketip", "x-remote-ip", "x-remote-addr", "x-originating-ip", "x-forward-for"),
    ],
)
def test_a_header_of_a_proxy_marks_a_request_as_forwarded(name: str) -> None:
    assert is_forwarded(["host", name])
    assert not is_forwarded(["host", "accept", "authorization", "x-ms-version", "user-agent", "x-request-id"])
