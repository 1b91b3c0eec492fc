"""Stored access policies, which are the ACL of a queue: XML to records and back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.doors.azure.dates import parse_iso
from penstock.doors.azure.errors import invalid_xml
from penstock.doors.azure.xml import DECLARATION, Element, elements

POLICIES_MAX = 5
ID_MAX = 64
PERMISSIONS = frozenset("raup")


class Policy(msgspec.Struct, frozen=True):
    id: str
    start: str = ""
    expiry: str = ""
    permission: str = ""
    bare: bool = False  # the identifier has no policy


def read_policies(root: Element) -> list[Policy]:
    policies = [_read_policy(identifier) for identifier in root.items("SignedIdentifier")]
    if fault := fault_of(policies):
        raise invalid_xml(fault)
    return policies


def fault_of(policies: Sequence[Policy]) -> str:
    """Return what is wrong with the policies of a queue. Empty if they are valid."""
    for policy in policies:
        if not 1 <= len(policy.id) <= ID_MAX:
            return f"An identifier has 1 to {ID_MAX} characters"
        if any(text and parse_iso(text) is None for text in (policy.start, policy.expiry)):
            return "Start and Expiry must be times in UTC"
        if not PERMISSIONS.issuperset(policy.permission):
            return "Permissions are r, a, u and p"
    if len(policies) > POLICIES_MAX:
        return f"At most {POLICIES_MAX} signed identifiers"
    return "An identifier is given twice" if len({policy.id for policy in policies}) != len(policies) else ""


def write_policies(policies: Sequence[Policy]) -> bytes:
    inner = "".join(_write_policy(policy) for policy in policies)
    whole = f"<SignedIdentifiers>{inner}</SignedIdentifiers>" if inner else "<SignedIdentifiers />"
    return f"{DECLARATION}{whole}".encode()


def encode_policies(policies: Sequence[Policy]) -> str:
    """Encode policies as the broker stores them."""
    return msgspec.json.encode(policies).decode()


def decode_policies(text: str) -> list[Policy]:
    return msgspec.json.decode(text, type=list[Policy]) if text else []


def _read_policy(element: Element) -> Policy:
    fields = element.fields("Id", "AccessPolicy")
    name = fields["Id"].value() if "Id" in fields else ""
    if "AccessPolicy" not in fields:
        return Policy(name, bare=True)
    values = fields["AccessPolicy"].values("Start", "Expiry", "Permission")
    return Policy(name, values.get("Start", ""), values.get("Expiry", ""), values.get("Permission", ""))


def _write_policy(policy: Policy) -> str:
    fields = (("Start", policy.start), ("Expiry", policy.expiry), ("Permission", policy.permission))
    access = "" if policy.bare else f"<AccessPolicy>{elements(field for field in fields if field[1])}</AccessPolicy>"
    return f"<SignedIdentifier>{elements([('Id', policy.id)])}{access}</SignedIdentifier>"
