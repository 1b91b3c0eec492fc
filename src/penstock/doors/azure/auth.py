"""Authorization of requests.

A request has exactly one kind of credentials. Comparisons take the same time for every input. A refusal says what is
wrong and, like the service, shows the text that should have been signed, but never a valid signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.doors.azure.accounts import Account, Accounts
from penstock.doors.azure.bearer import WORDINGS, check_token, invalid_token
from penstock.doors.azure.call import Call
from penstock.doors.azure.errors import AzureError, not_authentic
from penstock.doors.azure.operations import Operation
from penstock.doors.azure.policies import Policy
from penstock.doors.azure.sas import check_sas
from penstock.doors.azure.shared_key import check_shared_key
from penstock.wire.hosts import is_forwarded, is_from_here, is_loopback

_CLAIMS: Mapping[str, Any] = {}
_POLICIES = frozenset({Operation.GET_ACL, Operation.SET_ACL})
_POLICIES_SINCE = "2025-07-05"  # the first version in which a token is enough for them


class Authorizer:
    def __init__(
        self, accounts: Accounts, *, wall: Callable[[], int], secure: bool, oauth: str, wording: str = "azure"
    ) -> None:
        self.accounts = accounts
        self._wall = wall  # the time by which clients date their requests
        self.secure = secure  # whether the server uses TLS
        self._bearer = oauth != "off" and secure
        self._wording = WORDINGS[wording]
        self._bearer_from_anywhere = oauth == "open"

    @property
    def open_to_forged_tokens(self) -> bool:
        """Whether bearer tokens, whose signatures are not checked, are accepted from other machines."""
        return self._bearer and self._bearer_from_anywhere

    def account_of(self, call: Call) -> Account:
        account = self.accounts.get(call.account)
        if account is None:
            raise AzureError("ResourceNotFound")
        request = call.request
        if account.development and (not is_loopback(request.peer) or is_forwarded(request.index)):  # any Host is fine
            raise not_authentic("The development account is for this machine only; configure azure_accounts.")
        return account

    def authorize(
        self, call: Call, operation: Operation, now: int, policies: Mapping[str, Policy]
    ) -> Mapping[str, Any]:
        """Return the claims of a bearer token, or none. Raise AzureError if the call is not allowed.

        `now` is the time of the account, by which signatures and tokens expire. `policies` are the stored access
        policies of the queue, by id, if the call names one.
        """
        account = self.account_of(call)
        authorization = call.request.header("authorization")
        has_sas = "sig" in call.parameters
        if has_sas and not authorization:
            check_sas(call, account, operation, now=now, secure=self.secure, policies=policies)
            if "sduoid" in call.parameters:
                raise not_authentic("This signature needs the bearer token of its user as well.")
            return _CLAIMS
        scheme, _, credentials = authorization.partition(" ")
        if scheme == "Bearer":
            claims = self._authorize_bearer(call, account, operation, now, credentials.strip())
            if has_sas:
                check_sas(call, account, operation, now=now, secure=self.secure, policies=policies)
                if not claims.get("oid") or claims["oid"] != call.parameters.get("sduoid"):
                    raise not_authentic("The signature and the token belong to different users.")
            return claims
        if has_sas or scheme not in ("SharedKey", "SharedKeyLite"):
            if self._bearer and not authorization and call.version >= "2019-12-12":
                raise invalid_token("No credentials were given.")
            raise not_authentic("Credentials are missing, of an unknown kind, or of more than one kind.")
        check_shared_key(call, account, credentials.strip(), lite=scheme == "SharedKeyLite", now=self._wall())
        if operation is Operation.GET_USER_DELEGATION_KEY:
            raise not_authentic("Only a signed-in user can ask for a user delegation key.")
        return _CLAIMS

    def _authorize_bearer(
        self, call: Call, account: Account, operation: Operation, now: int, token: str
    ) -> Mapping[str, Any]:
        if not self._bearer:
            raise not_authentic("Bearer tokens are not accepted here: they need TLS and the setting azure_oauth.")
        if not self._bearer_from_anywhere and not is_from_here(call.request):
            raise not_authentic("With azure_oauth=basic, bearer tokens are accepted from this machine only.")
        claims = check_token(token, account.name, now, self._wording)
        if operation is Operation.REDRIVE or (operation in _POLICIES and call.version < _POLICIES_SINCE):
            raise AzureError("AuthorizationFailure", message=self._wording.key_only)
        return claims
