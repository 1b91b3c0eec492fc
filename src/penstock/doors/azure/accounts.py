"""Accounts, their projects, and their keys, which never leave this module as text.

Without configured accounts there is only the development account. Its key is public, so it is for callers on this
machine only.
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
    """HMAC-SHA256 with one key. The part that depends on the key alone is computed once."""

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
        self.project = name  # of its queues
        self.keys = tuple(keys)
        self.development = development  # the account was not configured: for this machine only
        self.public = public  # its first key is the development key

    def verify(self, text: str, signature: bytes) -> bool:
        """Return whether one of the keys made this signature."""
        return any(hmac.compare_digest(key.sign(text), signature) for key in self.keys)


class Accounts:
    def __init__(self, accounts: Iterable[Account], *, configured: bool) -> None:
        self._accounts = {account.name: account for account in accounts}
        self.configured = configured
        self.any_name = False  # every account exists, with the development key and a project of its name

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def get(self, name: str) -> Account | None:
        account = self._accounts.get(name)
        if account is None and self.any_name and _is_name(name) and self.in_project(name) is None:
            return _any_account(name)
        return account

    def __contains__(self, name: object) -> bool:
        """Return whether an account of this name was configured."""
        return name in self._accounts

    def project_of(self, name: str) -> str:
        return self._accounts[name].project if name in self._accounts else name

    def in_project(self, project: str) -> Account | None:
        """Return the configured account whose queues are in a project."""
        return next((account for account in self if account.project == project), None)

    @property
    def guarded(self) -> bool:
        """Whether callers from other machines need a secret key."""
        return all(account.development or not account.public for account in self)

    @property
    def first(self) -> Account:
        return next(iter(self))


def read_accounts(text: str | None) -> Accounts:
    """Read `name:key1[:key2];other:key`. Return the development account if there is no text."""
    if not text:
        return Accounts([_development_account(DEVELOPMENT_ACCOUNT)], configured=False)
    parts = [part.strip() for part in text.split(";")]
    accounts = [_read_account(index, part) for index, part in enumerate(filter(None, parts), 1)]
    if not accounts or len({account.name for account in accounts}) != len(accounts):
        raise InvalidArgumentError("azure_accounts: expected name:key1[:key2];..., with every name once")
    return Accounts(accounts, configured=True)


def place_accounts(accounts: Accounts, default_project: str, projects: Sequence[str]) -> Accounts:
    """Set the project of each account: by `projects` (ACCOUNT=PROJECT), else the project of the account's own name.

    The development account is in the default project. Two accounts cannot share a project, because the key of one
    account would open the queues of the other.
    """
    chosen = dict(pair.split("=", 1) for pair in projects)
    if unknown := [name for name in chosen if accounts.get(name) is None]:
        raise InvalidArgumentError(f"azure_projects: there is no account {unknown[0]}")
    chosen = {DEVELOPMENT_ACCOUNT: default_project} | chosen
    owners: dict[str, str] = {}  # account by project
    for account in accounts:
        account.project = chosen.get(account.name, account.name)
        other = owners.setdefault(account.project, account.name)
        if other != account.name:
            raise InvalidArgumentError(
                f"azure_projects: the accounts {other} and {account.name} would share the project {account.project}"
            )
    return accounts


def _development_account(name: str) -> Account:
    return Account(name, [Key(binascii.a2b_base64(DEVELOPMENT_KEY))], development=True, public=True)


_any_account = lru_cache(maxsize=1000)(_development_account)


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name != RESERVED and not name.endswith("-secondary")


def _read_account(index: int, text: str) -> Account:
    name, *keys = text.split(":")
    if not _is_name(name):  # the message does not quote the name, which may be a key in the wrong place
        raise InvalidArgumentError(f"azure_accounts: account {index} needs another name: lower-case letters and digits")
    if not 1 <= len(keys) <= 2:
        raise InvalidArgumentError(f"azure_accounts: account {index} needs one or two keys")
    try:
        secrets = [binascii.a2b_base64(key, strict_mode=True) for key in keys]
    except (binascii.Error, ValueError):
        secrets = []
    if not secrets or not all(secrets):
        raise InvalidArgumentError(f"azure_accounts: a key of account {index} is not Base64")
    return Account(name, map(Key, secrets), public=keys[0] == DEVELOPMENT_KEY)
