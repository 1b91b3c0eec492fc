"""The addresses of Spark."""

from __future__ import annotations

import warnings

import pytest

from penstock.errors import InvalidArgumentError, UnavailableError
from penstock.spark.session import SparkAddress, open_session


def test_places() -> None:
    assert (str(SparkAddress()), str(SparkAddress("spark://h:7077")), str(SparkAddress(remote="sc://h"))) == (
        "local[*]",
        "spark://h:7077",
        "sc://h",
    )
    assert SparkAddress().local
    assert SparkAddress("local[2]").local
    assert not SparkAddress("spark://h:7077").local
    assert not SparkAddress(remote="sc://h").local


def test_an_unreachable_connect_server_is_refused() -> None:
    with (
        warnings.catch_warnings(),
        pytest.raises(
            UnavailableError, match=r"no Spark Connect server answers at sc://127.0.0.1:1: Connection refused"
        ),
    ):
        open_session("x", {}, SparkAddress(remote="sc://127.0.0.1:1"))


def test_an_invalid_remote_address_is_refused() -> None:
    with (
        warnings.catch_warnings(),
        pytest.raises(InvalidArgumentError, match="--remote takes sc://HOST:PORT, not localhost"),
    ):
        open_session("x", {}, SparkAddress(remote="localhost"))
