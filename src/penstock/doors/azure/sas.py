"""Shared access signatures: account, service and user delegation ones.

Parse, then the signature, then the time, then the permission, in this order, so that a caller without a good signature
learns nothing. The signed strings are exactly those of the URL. Each of start, expiry and permission comes from the
signature or from the stored policy it names, never from both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from penstock.doors.azure.accounts import Account
from penstock.doors.azure.call import Call
from penstock.doors.azure.dates import parse_iso, rfc1123
from penstock.doors.azure.delegation import delegated_key
from penstock.doors.azure.errors import AzureError, not_authentic
from penstock.doors.azure.operations import Operation
from penstock.doors.azure.policies import Policy
from penstock.doors.azure.shared_key import decode_signature

# fmt: off
PARAMETERS = frozenset({
    "sv", "ss", "srt", "sr", "sp", "st", "se", "si", "sip", "spr", "ses", "sig",
    "skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "srh", "srq",
})
# fmt: on
_ACCOUNT = ("sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "sig")
_VERSION = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PREFIXED_SINCE = "2015-04-05"  # the resource of a service SAS names its service, and addresses and protocols count
_SCOPED_SINCE = "2020-12-06"  # an account SAS signs its encryption scope
_OLDEST = "2012-02-12"


def check_sas(
    call: Call,
    account: Account,
    operation: Operation,
    *,
    now: int,
    secure: bool,
    policies: Mapping[str, Policy],
) -> None:
    """AzureError unless the signature in the query allows the operation, now, from there."""
    given = call.parameters
    _check_form(call)
    if "ss" in given or "srt" in given:
        _check_within(_account_window(account, tuple(map(given.get, _ACCOUNT))), now)
        _check_caller(call, secure)
        _check_account_permission(given, operation)
        return
    if "skoid" in given:
        permission = _check_delegation(call, account, now)
    else:
        permission = _check_service(call, account, now, policies)
    _check_caller(call, secure)
    if not permission:
        raise not_authentic("sp is missing.")
    if not operation.service:
        raise AzureError("AuthorizationFailure")
    if not _share(permission, operation.service):
        raise AzureError("AuthorizationPermissionMismatch")


def _check_service(call: Call, account: Account, now: int, policies: Mapping[str, Policy]) -> str | None:
    """The permissions of a service SAS, once its signature and time are good."""
    _check_signature(account.signed(_service_text(call), _signature(call.parameters)))
    start, expiry, permission = _with_policy(call.parameters, policies)
    _check_within(_window(start, expiry), now)
    return permission


def _check_delegation(call: Call, account: Account, now: int) -> str | None:
    """The same of a user delegation SAS, whose key has a time of its own."""
    given = call.parameters
    keys, text, signature = delegated_key(account, given), _delegation_text(call), _signature(given)
    _check_signature(any(key.signed(text, signature) for key in keys))
    _check_within(_window(given.get("st"), given.get("se")), now)
    _check_within(_window(given.get("skt"), given.get("ske")), now)
    return given.get("sp")


# ---------------------------------------------------------------------- form and signature


def _check_form(call: Call) -> None:
    if any(name in PARAMETERS for name in call.repeated):
        raise not_authentic("A parameter of the signature is given more than once.")
    version = call.parameters.get("sv", "")
    if not _VERSION.fullmatch(version) or version < _OLDEST:
        raise not_authentic("sv is missing or not a version.")
    if "srh" in call.parameters or "srq" in call.parameters:
        raise not_authentic("Signed request headers and parameters are not supported.")


def _signature(given: Mapping[str, str]) -> bytes:
    """A plus that some client has turned into a space is a plus again."""
    return decode_signature(given["sig"].replace(" ", "+"))


def _check_signature(good: bool) -> None:
    if not good:
        raise not_authentic("Signature did not match.")


@lru_cache(maxsize=1024)  # a refusal is not remembered, and what is remembered is bound to every field
def _account_window(account: Account, values: tuple[str | None, ...]) -> tuple[int, int]:
    """From when until when an account SAS is good; AzureError if no key of the account has signed it."""
    given = {name: value for name, value in zip(_ACCOUNT, values, strict=True) if value is not None}
    _check_signature(account.signed(_account_text(account.name, given), _signature(given)))
    return _window(given.get("st"), given.get("se"))


def _account_text(account: str, given: Mapping[str, str]) -> str:
    get = given.get
    lines = [account, *(get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv"))]
    if given["sv"] >= _SCOPED_SINCE:
        lines.append(get("ses", ""))
    return "\n".join(lines) + "\n"


def _service_text(call: Call) -> str:
    get = call.parameters.get
    common = [get("sp", ""), get("st", ""), get("se", "")]
    if call.parameters["sv"] < _PREFIXED_SINCE:
        return "\n".join([*common, f"/{call.account}/{call.queue}", get("si", ""), get("sv", "")])
    place = f"/queue/{call.account}/{call.queue}"
    return "\n".join([*common, place, *(get(name, "") for name in ("si", "sip", "spr", "sv"))])


def _delegation_text(call: Call) -> str:
    get = call.parameters.get
    names = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "sip", "spr", "sv")
    place = f"/queue/{call.account}/{call.queue}"
    return "\n".join([get("sp", ""), get("st", ""), get("se", ""), place, *(get(name, "") for name in names)])


# ---------------------------------------------------------------------- time, place, permission


def _with_policy(given: Mapping[str, str], policies: Mapping[str, Policy]) -> tuple[str | None, str | None, str | None]:
    """Start, expiry and permission, each from the one place that says it."""
    own = (given.get("st"), given.get("se"), given.get("sp"))
    if "si" not in given:
        return own
    policy = policies.get(given["si"])
    if policy is None:
        raise not_authentic("The stored access policy does not exist.")
    stored = (policy.start or None, policy.expiry or None, policy.permission or None)
    if any(ours and theirs for ours, theirs in zip(own, stored, strict=True)):
        raise not_authentic("A field is in the signature and in its stored access policy.")
    start, expiry, permission = (ours or theirs for ours, theirs in zip(own, stored, strict=True))
    return start, expiry, permission


def _window(start: str | None, expiry: str | None) -> tuple[int, int]:
    until = parse_iso(expiry or "")
    since = parse_iso(start) if start else 0
    if until is None or since is None:
        raise not_authentic("A start or expiry is missing or not a time in UTC.")
    return since, until


def _check_within(window: tuple[int, int], now: int) -> None:
    since, until = window
    if not since <= now < until:
        start, expiry, current = (rfc1123(each) if each else "" for each in (since, until, now))
        frame = f"Start [{start}] - Expiry [{expiry}] - Current [{current}]"
        raise not_authentic(f"Signature not valid in the specified time frame: {frame}")


def _check_caller(call: Call, secure: bool) -> None:
    protocol, addresses = call.parameters.get("spr"), call.parameters.get("sip")
    if protocol is not None:
        if protocol not in ("https", "https,http"):
            raise not_authentic("spr is neither https nor https,http.")
        if protocol == "https" and not secure:
            raise AzureError("AuthorizationProtocolMismatch")
    if addresses is not None and not _within(call.request.peer, addresses):
        raise AzureError("AuthorizationSourceIPMismatch", ("SourceIP", call.request.peer))


def _within(peer: str, addresses: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        here, low, high = ip_address(peer), ip_address(first), ip_address(last or first)
    except ValueError:
        return False
    here = getattr(here, "ipv4_mapped", None) or here
    return here.version == low.version == high.version and int(low) <= int(here) <= int(high)


def _check_account_permission(given: Mapping[str, str], operation: Operation) -> None:
    if "q" not in given.get("ss", ""):
        raise AzureError("AuthorizationServiceMismatch")
    if not operation.account:
        raise AzureError("AuthorizationFailure")
    if not _share(given.get("srt", ""), operation.types):
        raise AzureError("AuthorizationResourceTypeMismatch")
    if not _share(given.get("sp", ""), operation.account):
        raise AzureError("AuthorizationPermissionMismatch")


def _share(given: str, wanted: str) -> bool:
    return any(letter in given for letter in wanted)
