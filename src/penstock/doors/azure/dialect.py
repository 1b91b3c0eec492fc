"""Dialects: records of the choices in which the real service, Azurite and the specification (seed 003) differ.

    /{account}/{queue}/...          standard(): as the official clients expect
    /queue/{account}/{queue}/...    SEED_003: as the specification says

Operations use these choices and never test which dialect a call has.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.doors.azure.errors import AzureError, invalid_value
from penstock.doors.azure.names import QUEUE_NAME_MAX, QUEUE_NAME_MIN, is_base64, is_metadata_name, is_queue_name

_HYPHENED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


def base64_by_default(text: str) -> str:
    """Encode text that is not Base64 already. `Test` is Base64 and stays: the specification is ambiguous."""
    if not text:
        raise AzureError("InvalidMessageContent")
    try:
        if is_base64(text):
            binascii.a2b_base64(text, strict_mode=True)
            return text
    except (binascii.Error, ValueError):
        pass
    return base64.b64encode(text.encode()).decode()


def check_standard_name(name: str) -> None:
    if not QUEUE_NAME_MIN <= len(name) <= QUEUE_NAME_MAX:
        message = "The specified resource name length is not within the permissible limits."
        raise AzureError("OutOfRangeInput", message=message)
    if not is_queue_name(name):
        raise AzureError("InvalidResourceName")


def check_seed_name(name: str) -> None:
    if not QUEUE_NAME_MIN <= len(name) <= QUEUE_NAME_MAX or not is_queue_name(name):
        raise AzureError("InvalidQueueName")


def standard_unknown_parameter(name: str, value: str) -> AzureError:
    return invalid_value(name, value, "Not a known operation")


def seed_unknown_parameter(name: str, value: str) -> AzureError:
    return AzureError("InvalidQueryParameter", ("QueryParameterName", name), ("QueryParameterValue", value))


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The choices of one dialect. The defaults are those of the standard paths."""

    receipt_mismatch: str  # the error code for a well-formed receipt that is not valid for the message
    receipt_form_first: bool = True  # the form of a receipt is checked before the queue and the message
    any_life: bool = True  # a message may live for more than a week, or without end
    hidden_for_life: bool = False  # a message may be hidden for its whole default life. It then lives a week longer
    get_visibility_min: int = 1  # the shortest visibility timeout of a get, in seconds
    existing_queue_is_conflict: bool = False  # creating an existing queue is an error, even with the same metadata
    marker_is_last_name: bool = False  # NextMarker is the last returned name. Otherwise the next one, with its account
    encode_text: Callable[[str], str] = str  # applied to the text of a message that is put
    check_queue_name: Callable[[str], None] = check_standard_name
    is_metadata_name: Callable[[str], bool] = is_metadata_name
    unknown_parameter: Callable[[str, str], AzureError] = standard_unknown_parameter


AZURITE_RECEIPTS, AZURE_RECEIPTS = "azurite", "azure"
RECEIPT_ERRORS = {AZURITE_RECEIPTS: "PopReceiptMismatch", AZURE_RECEIPTS: "MessageNotFound"}


def standard(receipt_errors: str = AZURITE_RECEIPTS) -> Dialect:
    return Dialect(receipt_mismatch=RECEIPT_ERRORS[receipt_errors])


SEED_003 = Dialect(
    receipt_mismatch="InvalidPopReceipt",
    receipt_form_first=False,
    any_life=False,
    hidden_for_life=True,
    get_visibility_min=0,
    existing_queue_is_conflict=True,
    marker_is_last_name=True,
    encode_text=base64_by_default,
    check_queue_name=check_seed_name,
    is_metadata_name=lambda name: _HYPHENED.fullmatch(name) is not None,
    unknown_parameter=seed_unknown_parameter,
)
