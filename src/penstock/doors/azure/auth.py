"""Authorization, before anything else is looked at.

Exactly one kind of credentials counts, every comparison takes the same time whatever the input, and a refusal says
what was wrong with the form but never what would have been right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.doors.azure.accounts import Account, Accounts
from penstock.doors.azure.bearer import check_token, refused
from penstock.doors.azure.call import Call
from penstock.doors.azure.errors import AzureError, not_authentic
from penstock.doors.azure.operations import Operation
from penstock.doors.azure.policies import Policy
from penstock.doors.azure.sas import check_sas
from penstock.doors.azure.shared_key import check_shared_key
from penstock.wire.hosts import is_forwarded, is_loopback
from penstock.wire.message import Request

_CLAIMS: Mapping[str, Any] = {}
_POLICIES = frozenset({Operation.GET_ACL, Operation.SET_ACL})
_POLICIES_SINCE = "2025-07-05"  # the first version in which a token is enough for them


class Gatekeeper:
    def __init__(self, accounts: Accounts, *, wall: Callable[[], int], secure: bool, oauth: str) -> None:
        self.accounts = accounts
        self._wall = wall  # what clients date their requests by
        self.secure = secure  # the door speaks TLS
        self._bearer = oauth != "off" and secure
        self._bearer_from_anywhere = oauth == "open"

    @property
    def open_to_forged_tokens(self) -> bool:
        """Whether tokens, whose signatures are not checked, are accepted from other machines."""
        return self._bearer and self._bearer_from_anywhere

    def account_of(self, call: Call) -> Account:
        account = self.accounts.get(call.account)
        if account is None:
            raise AzureError("ResourceNotFound")
        if account.development and not _is_local(call.request):
            raise not_authentic("The development account is for this machine only; configure azure_accounts.")
        return account

    def admit(self, call: Call, operation: Operation, now: int, policies: Mapping[str, Policy]) -> Mapping[str, Any]:
        """The claims of a bearer token, or none; AzureError if the call may not pass.

        `now`: in the time of the account, for what ends. `policies`: those of the queue, by id, for a call that names
        one.
        """
        account = self.account_of(call)
        authorization = call.request.header("authorization")
        signed = "sig" in call.parameters
        if signed and not authorization:
            check_sas(call, account, operation, now=now, secure=self.secure, policies=policies)
            if "sduoid" in call.parameters:
                raise not_authentic("This signature needs the token of its user beside it.")
            return _CLAIMS
        scheme, _, credentials = authorization.partition(" ")
        if scheme == "Bearer":
            claims = self._admit_bearer(call, account, operation, now, credentials.strip())
            if signed:
                check_sas(call, account, operation, now=now, secure=self.secure, policies=policies)
                if not claims.get("oid") or claims["oid"] != call.parameters.get("sduoid"):
                    raise not_authentic("The signature belongs to another user than the token.")
            return claims
        if signed or scheme not in ("SharedKey", "SharedKeyLite"):
            if self._bearer and not authorization and call.version >= "2019-12-12":
                raise refused("No credentials were given.")
            raise not_authentic("Credentials are missing, of an unknown kind, or of more than one kind.")
        check_shared_key(call, account, credentials.strip(), lite=scheme == "SharedKeyLite", now=self._wall())
        if operation is Operation.GET_USER_DELEGATION_KEY:
            raise not_authentic("Only a signed-in user can ask for a user delegation key.")
        return _CLAIMS

    def _admit_bearer(
        self, call: Call, account: Account, operation: Operation, now: int, token: str
    ) -> Mapping[str, Any]:
        if not self._bearer:
            raise not_authentic("Bearer tokens are not accepted here: they need TLS and the setting azure_oauth.")
        if not self._bearer_from_anywhere and not _is_local(call.request):
            raise not_authentic("With azure_oauth=basic, bearer tokens are accepted from this machine only.")
        claims = check_token(token, account.name, now)
        if operation is Operation.REDRIVE or (operation in _POLICIES and call.version < _POLICIES_SINCE):
            raise AzureError("AuthorizationFailure")
        return claims


def _is_local(request: Request) -> bool:
    return is_loopback(request.peer) and not is_forwarded(request.index)
