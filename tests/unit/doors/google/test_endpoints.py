"""The endpoints that push may use: URLs, addresses, and names whose addresses change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.google.endpoints import DeniedError, Endpoints, parse, unwrap
from penstock.doors.google.errors import CallError

PRIVATE = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    # Networks in the registry that Python 3.11 calls global.
    "64:ff9b:1::1",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "64:ff9b:1:7f00:0:100::",
    "100::1",
    "100:0:0:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:1ff:ffff::1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "5f00::1",
    "4000::1",
    "::ffff:0:127.0.0.1",
    "192.88.99.1",
]
PUBLIC = [
    "8.8.8.8",
    "2400::1",
    "2620:4f:8000::1",
    "3ffe::1",
    "192.175.48.1",
    "1.1.1.1",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


def asked(endpoints: Endpoints, url: str) -> list[str]:
    return asyncio.run(endpoints.addresses(parse(url)))


def always(*addresses: str) -> Endpoints:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return Endpoints([], [], resolve)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_with_a_private_address_is_denied(address: str) -> None:
    with pytest.raises(DeniedError):
        asked(always(address), "https://example.com/")


@pytest.mark.parametrize("address", PRIVATE)
def test_one_private_address_is_enough_to_deny(address: str) -> None:
    with pytest.raises(DeniedError):
        asked(always("8.8.8.8", address), "https://example.com/")


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_literal_address_is_refused_when_it_is_set(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(CallError, match="Unsupported push_endpoint"):
        always().check(f"https://{host}/")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed_over_https_only(address: str) -> None:
    assert asked(always(address), "https://example.com/") == [address]
    with pytest.raises(DeniedError):
        asked(always(address), "http://example.com/")


@pytest.mark.parametrize(
    ("network", "address"),
    [("127.0.0.0/8", "127.0.0.1"), ("10.0.0.0/8", "::ffff:10.0.0.1"), ("fd00::/8", "fd00::1"), ("::1/128", "::1")],
)
def test_the_operator_may_allow_a_network(network: str, address: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return [address]

    endpoints = Endpoints([network], [9000], resolve)
    assert asked(endpoints, "http://inside.example:8080/") == [address]
    if ip_address(address).is_loopback:
        with pytest.raises(DeniedError, match="itself"):
            asked(endpoints, "http://inside.example:9000/")


@given(st.ip_addresses())
def test_addresses_that_python_calls_not_global_are_denied(address: IPv4Address | IPv6Address) -> None:
    """The list does not depend on the Python version. A Python version with more networks fails this test."""
    bare = unwrap(address)
    if not bare.is_global or bare.is_multicast or bare.is_reserved or bare.is_link_local:
        with pytest.raises(DeniedError):
            asked(always(str(address)), "https://example.com/")


def test_a_name_is_checked_each_time_it_is_used() -> None:
    answers = [["8.8.8.8"], ["127.0.0.1"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    endpoints = Endpoints([], [], resolve)
    assert asked(endpoints, "https://flips.example/") == ["8.8.8.8"]
    with pytest.raises(DeniedError):
        asked(endpoints, "https://flips.example/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "http://",
        "https:///path",
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://example.com",
        "https://user@example.com",
        "https://:pass@example.com",
        "https://example.com:99999/",
        "https://example.com:port/",
        "https://exa mple.com/",
        "https://example.com/\r\nX: y",
        "https://ex\u0430mple.com/",
        "https://[::1",
        "https://" + "a" * 3000,
        "javascript:alert(1)",
    ],
)
def test_invalid_endpoints_are_refused(url: str) -> None:
    with pytest.raises(CallError, match="Unsupported push_endpoint"):
        parse(url)


def test_the_parts_of_an_endpoint() -> None:
    target = parse("https://example.com:8443/a/b?c=d#e")
    assert target == (True, "example.com", 8443, "/a/b?c=d")
    assert target.authority == "example.com:8443"
    assert parse("http://[2001:db8::1]").authority == "[2001:db8::1]"


def test_an_ipv4_address_inside_ipv6_is_unwrapped() -> None:
    assert str(unwrap(ip_address("::ffff:1.2.3.4"))) == "1.2.3.4"
    assert str(unwrap(ip_address("2606:4700::1"))) == "2606:4700::1"
