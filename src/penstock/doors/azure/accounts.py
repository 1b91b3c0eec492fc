"""Accounts, the project where each has its queues, and their keys, which never leave this module as text.

Without configured accounts there is one, the development account, for callers on this machine only: its key is public.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from penstock.errors import InvalidArgumentError

DEVELOPMENT_ACCOUNT = "devstoreaccount1"
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
RESERVED = "queue"  # the first part of the dialect's paths

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,62}", re.ASCII)
_BLOCK = 64  # bytes of a SHA-256 block


class Key:
    """HMAC-SHA256 with one key; the part that depends on the key alone is computed once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        block = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(self, text: str) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text.encode("utf-8", "surrogateescape"))
        outer.update(inner.digest())
        return outer.digest()


class Account:
    __slots__ = ("development", "keys", "name", "project", "public")

    def __init__(self, name: str, keys: Iterable[Key], *, development: bool = False, public: bool = False) -> None:
        self.name = name
        self.project = name  # where its queues live
        self.keys = tuple(keys)
        self.development = development  # not configured: for this machine only
        self.public = public  # its first key is the development key

    def signed(self, text: str, signature: bytes) -> bool:
        """Whether one of the keys made this signature."""
        return any(hmac.compare_digest(key.sign(text), signature) for key in self.keys)


class Accounts:
    def __init__(self, accounts: Iterable[Account], *, configured: bool) -> None:
        self._accounts = {account.name: account for account in accounts}
        self.configured = configured
        self.any_name = False  # whoever is asked for is there, with the development key and a project of that name

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def get(self, name: str) -> Account | None:
        account = self._accounts.get(name)
        if account is None and self.any_name and _is_name(name) and self.in_project(name) is None:
            return _account_of_a_test(name)
        return account

    def __contains__(self, name: object) -> bool:
        """Whether it was configured."""
        return name in self._accounts

    def project_of(self, name: str) -> str:
        return self._accounts[name].project if name in self._accounts else name

    def in_project(self, project: str) -> Account | None:
        """The account whose queues live in a project."""
        return next((account for account in self if account.project == project), None)

    @property
    def guarded(self) -> bool:
        """Whether no account has the public key, but for the development account, which only this machine reaches."""
        return all(account.development or not account.public for account in self)

    @property
    def first(self) -> Account:
        return next(iter(self))


def read_accounts(text: str | None) -> Accounts:
    """The accounts of `name:key1[:key2];other:key`, or the development account if there is no text."""
    if not text:
        return Accounts([_development_account(DEVELOPMENT_ACCOUNT)], configured=False)
    parts = [part.strip() for part in text.split(";")]
    accounts = [_account(place, part) for place, part in enumerate(filter(None, parts), 1)]
    if not accounts or len({account.name for account in accounts}) != len(accounts):
        raise InvalidArgumentError("azure_accounts: expected name:key1[:key2];..., with every name once")
    return Accounts(accounts, configured=True)


def place_accounts(accounts: Accounts, default_project: str, projects: Sequence[str]) -> Accounts:
    """The accounts with the project of each: as `projects` says (ACCOUNT=PROJECT), else the one of its own name.

    The development account is nobody's name for anything, so it is in the default project. No two share a project:
    the key of one would open the queues of the other.
    """
    given = dict(each.split("=", 1) for each in projects)
    if unknown := [name for name in given if accounts.get(name) is None]:
        raise InvalidArgumentError(f"azure_projects: there is no account {unknown[0]}")
    chosen, taken = {DEVELOPMENT_ACCOUNT: default_project} | given, dict[str, str]()
    for account in accounts:
        account.project = chosen.get(account.name, account.name)
        other = taken.setdefault(account.project, account.name)
        if other != account.name:
            raise InvalidArgumentError(
                f"azure_projects: the accounts {other} and {account.name} would share the project {account.project}"
            )
    return accounts


def _development_account(name: str) -> Account:
    return Account(name, [Key(binascii.a2b_base64(DEVELOPMENT_KEY))], development=True, public=True)


_account_of_a_test = lru_cache(maxsize=1000)(_development_account)


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name != RESERVED and not name.endswith("-secondary")


def _account(place: int, text: str) -> Account:
    name, *keys = text.split(":")
    if not _is_name(name):
        # What stands where the name should be may be a key.
        raise InvalidArgumentError(f"azure_accounts: account {place} needs another name: lower-case letters and digits")
    if not 1 <= len(keys) <= 2:
        raise InvalidArgumentError(f"azure_accounts: account {place} needs one or two keys")
    try:
        secrets = [binascii.a2b_base64(key, strict_mode=True) for key in keys]
    except (binascii.Error, ValueError):
        secrets = []
    if not secrets or not all(secrets):
        raise InvalidArgumentError(f"azure_accounts: a key of account {place} is not Base64")
    return Account(name, map(Key, secrets), public=keys[0] == DEVELOPMENT_KEY)
