"""Shared access signatures (SAS): account, service and user delegation signatures.

The form is checked first, then the signature, the time and the permission, so a caller without a valid signature
learns nothing. The signed strings are exactly those of the URL. Start, expiry and permission each come from the
signature or from the stored policy that it names, never from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from penstock.doors.azure.accounts import Account
from penstock.doors.azure.call import Call
from penstock.doors.azure.dates import is_version, parse_iso, rfc1123
from penstock.doors.azure.delegation import delegated_accounts
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
    """Raise AzureError unless the signature in the query allows the operation, now and for this caller."""
    parameters = call.parameters
    _check_form(call)
    if "ss" in parameters or "srt" in parameters:
        _check_time(_account_times(account, tuple(map(parameters.get, _ACCOUNT))), now)
        _check_caller(call, secure)
        _check_account_permission(parameters, operation)
        return
    if "skoid" in parameters:
        permission = _check_delegation(call, account, now)
    else:
        permission = _check_service(call, account, now, policies)
    _check_caller(call, secure)
    if not permission:
        raise not_authentic("sp is missing.")
    if not operation.service:
        raise AzureError("AuthorizationFailure")
    if not _has_any(permission, operation.service):
        raise AzureError("AuthorizationPermissionMismatch")


def _check_service(call: Call, account: Account, now: int, policies: Mapping[str, Policy]) -> str | None:
    """Check signature and time of a service SAS, and return its permissions."""
    text = _service_text(call)
    _check_signature(account.verify(text, _signature(call.parameters)), text)
    start, expiry, permission = _with_policy(call.parameters, policies)
    _check_time(_times(start, expiry), now)
    return permission


def _check_delegation(call: Call, account: Account, now: int) -> str | None:
    """Check signature and times of a user delegation SAS and of its key, and return its permissions."""
    parameters = call.parameters
    accounts, text, signature = delegated_accounts(account, parameters), _delegation_text(call), _signature(parameters)
    _check_signature(any(delegated.verify(text, signature) for delegated in accounts), text)
    _check_time(_times(parameters.get("st"), parameters.get("se")), now)
    _check_time(_times(parameters.get("skt"), parameters.get("ske")), now)
    return parameters.get("sp")


# ---------------------------------------------------------------------- form and signature


def _check_form(call: Call) -> None:
    if any(name in PARAMETERS for name in call.repeated):
        raise not_authentic("A parameter of the signature is given more than once.")
    version = call.parameters.get("sv", "")
    if not is_version(version) or version < _OLDEST:
        raise not_authentic("sv is missing or not a version.")
    if "srh" in call.parameters or "srq" in call.parameters:
        raise not_authentic("Signed request headers and parameters are not supported.")


def _signature(parameters: Mapping[str, str]) -> bytes:
    """Return the decoded signature. Some clients turn a plus into a space."""
    return decode_signature(parameters["sig"].replace(" ", "+"))


def _check_signature(is_valid: bool, text: str) -> None:
    """Refuse an invalid signature, and show the text that should have been signed, as the service does."""
    if not is_valid:
        raise not_authentic(f"Signature did not match. String to sign used was {text}")


@lru_cache(maxsize=1024)  # only valid signatures are remembered, and a change of any field is another signature
def _account_times(account: Account, values: tuple[str | None, ...]) -> tuple[int, int]:
    """Return start and expiry of an account SAS. Raise AzureError if no key of the account has signed it."""
    parameters = {name: value for name, value in zip(_ACCOUNT, values, strict=True) if value is not None}
    text = _account_text(account.name, parameters)
    _check_signature(account.verify(text, _signature(parameters)), text)
    return _times(parameters.get("st"), parameters.get("se"))


def _account_text(account: str, parameters: Mapping[str, str]) -> str:
    get = parameters.get
    lines = [account, *(get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv"))]
    if parameters["sv"] >= _SCOPED_SINCE:
        lines.append(get("ses", ""))
    return "\n".join(lines) + "\n"


def _service_text(call: Call) -> str:
    get = call.parameters.get
    common = [get("sp", ""), get("st", ""), get("se", "")]
    if call.parameters["sv"] < _PREFIXED_SINCE:
        return "\n".join([*common, f"/{call.account}/{call.queue}", get("si", ""), get("sv", "")])
    resource = f"/queue/{call.account}/{call.queue}"
    return "\n".join([*common, resource, *(get(name, "") for name in ("si", "sip", "spr", "sv"))])


def _delegation_text(call: Call) -> str:
    get = call.parameters.get
    names = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "sip", "spr", "sv")
    resource = f"/queue/{call.account}/{call.queue}"
    return "\n".join([get("sp", ""), get("st", ""), get("se", ""), resource, *(get(name, "") for name in names)])


# ---------------------------------------------------------------------- time, caller, permission


def _with_policy(
    parameters: Mapping[str, str], policies: Mapping[str, Policy]
) -> tuple[str | None, str | None, str | None]:
    """Return start, expiry and permission, each from the signature or from the stored policy that it names."""
    own = (parameters.get("st"), parameters.get("se"), parameters.get("sp"))
    if "si" not in parameters:
        return own
    policy = policies.get(parameters["si"])
    if policy is None:
        raise not_authentic("The stored access policy does not exist.")
    stored = (policy.start or None, policy.expiry or None, policy.permission or None)
    pairs = list(zip(own, stored, strict=True))
    if any(in_signature and in_policy for in_signature, in_policy in pairs):
        raise not_authentic("A field is in the signature and in its stored access policy.")
    start, expiry, permission = (in_signature or in_policy for in_signature, in_policy in pairs)
    return start, expiry, permission


def _times(start: str | None, expiry: str | None) -> tuple[int, int]:
    until = parse_iso(expiry or "")
    since = parse_iso(start) if start else 0
    if until is None or since is None:
        raise not_authentic("A start or expiry is missing or not a time in UTC.")
    return since, until


def _check_time(times: tuple[int, int], now: int) -> None:
    since, until = times
    if not since <= now < until:
        start, expiry, current = (rfc1123(time) if time else "" for time in (since, until, now))
        frame = f"Start [{start}] - Expiry [{expiry}] - Current [{current}]"
        raise not_authentic(f"Signature not valid in the specified time frame: {frame}")


def _check_caller(call: Call, secure: bool) -> None:
    protocol, addresses = call.parameters.get("spr"), call.parameters.get("sip")
    if protocol is not None:
        if protocol not in ("https", "https,http"):
            raise not_authentic("spr is neither https nor https,http.")
        if protocol == "https" and not secure:
            raise AzureError("AuthorizationProtocolMismatch")
    if addresses is not None and not _is_in_range(call.request.peer, addresses):
        raise AzureError("AuthorizationSourceIPMismatch", ("SourceIP", call.request.peer))


def _is_in_range(peer: str, addresses: str) -> bool:
    first, _, last = addresses.partition("-")
    try:
        address, low, high = ip_address(peer), ip_address(first), ip_address(last or first)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.version == low.version == high.version and int(low) <= int(address) <= int(high)


def _check_account_permission(parameters: Mapping[str, str], operation: Operation) -> None:
    if "q" not in parameters.get("ss", ""):
        raise AzureError("AuthorizationServiceMismatch")
    if not operation.account:
        raise AzureError("AuthorizationFailure")
    if not _has_any(parameters.get("srt", ""), operation.types):
        raise AzureError("AuthorizationResourceTypeMismatch")
    if not _has_any(parameters.get("sp", ""), operation.account):
        raise AzureError("AuthorizationPermissionMismatch")


def _has_any(permissions: str, needed: str) -> bool:
    return any(permission in permissions for permission in needed)
