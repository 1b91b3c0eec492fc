"""Accounts: their configuration, and the errors of a wrong one."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, Key, place_accounts, read_accounts
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


def test_the_development_account_is_in_the_default_project_and_others_in_their_own() -> None:
    accounts = read_accounts(f"{DEVELOPMENT_ACCOUNT}:{KEY};one:{KEY};two:{KEY}")
    placed = place_accounts(accounts, "demo", ["two=elsewhere"])
    assert [account.project for account in placed] == ["demo", "one", "elsewhere"]
    assert (placed.project_of("two"), placed.project_of("unknown")) == ("elsewhere", "unknown")
    found = placed.in_project("elsewhere")
    assert found is not None
    assert (found.name, placed.in_project("two")) == ("two", None)


@pytest.mark.parametrize(
    ("default", "projects", "refusal"),
    [
        ("one", [], "the accounts devstoreaccount1 and one would share the project one"),
        ("demo", ["one=demo"], "the accounts devstoreaccount1 and one would share the project demo"),
        ("demo", ["three=x"], "there is no account three"),
    ],
)
def test_accounts_that_would_share_a_project_are_refused(default: str, projects: list[str], refusal: str) -> None:
    with pytest.raises(InvalidArgumentError, match=refusal):
        place_accounts(read_accounts(f"{DEVELOPMENT_ACCOUNT}:{KEY};one:{KEY}"), default, projects)
