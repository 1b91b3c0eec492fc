"""Accounts: how they are configured, and what is said when they are not."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, Key, read_accounts
from penstock.errors import InvalidArgumentError

KEY = base64.b64encode(b"k" * 32).decode()


@given(st.binary(min_size=1, max_size=200), st.text())
def test_a_key_signs_as_hmac_does(secret: bytes, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass") if any(0xD800 <= ord(c) < 0xE000 for c in text) else text.encode()
    if text == data.decode("utf-8", "surrogatepass") and not any(0xD800 <= ord(c) < 0xE000 for c in text):
        assert Key(secret).sign(text) == hmac.digest(secret, data, "sha256")


def test_without_configuration_there_is_the_development_account() -> None:
    accounts = read_accounts(None)
    account = accounts.get(DEVELOPMENT_ACCOUNT)
    assert account is not None
    assert (account.development, accounts.configured, accounts.first.name) == (True, False, DEVELOPMENT_ACCOUNT)


def test_accounts_are_read_with_their_keys() -> None:
    accounts = read_accounts(f"one:{KEY}:{KEY}; two:{KEY} ;")
    one, two = accounts.get("one"), accounts.get("two")
    assert one is not None
    assert two is not None
    assert (len(one.keys), len(two.keys), one.development) == (2, 1, False)
    assert accounts.get("three") is None


@pytest.mark.parametrize(
    "text",
    [
        "one",
        "one:",
        "one:not base64",
        "one:YQ=",
        f"one:{KEY}:{KEY}:{KEY}",
        f":{KEY}",
        f"UPPER:{KEY}",
        f"queue:{KEY}",
        f"one-secondary:{KEY}",
        f"one:{KEY};one:{KEY}",
        ";",
    ],
)
def test_a_wrong_configuration_is_refused_without_its_keys(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        read_accounts(text)
    assert "azure_accounts" in refused.value.message
    assert KEY not in refused.value.message
    assert "not base64" not in refused.value.message
