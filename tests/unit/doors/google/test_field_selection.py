"""The parts of an answer that a REST client selects."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.google.errors import CallError
from penstock.doors.google.field_selection import parse_fields, select_fields
from penstock.doors.google.messages import response

KIND = response("ListSubscriptionsResponse").DESCRIPTOR
LABELS = {"team": "blue", "tier": "1"}
ONE = {"name": "s", "labels": LABELS, "retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "2s"}}
BOTH = [ONE, {"name": "t"}]
ANSWER: dict[str, Any] = {"subscriptions": BOTH, "nextPageToken": "n"}
SHORT = {"minimumBackoff": "1s"}


@pytest.mark.parametrize(
    ("mask", "part"),
    [
        ("*", ANSWER),
        ("nextPageToken", {"nextPageToken": "n"}),
        ("next_page_token", {"nextPageToken": "n"}),
        ("subscriptions/name", {"subscriptions": [{"name": "s"}, {"name": "t"}]}),
        ("subscriptions.name", {"subscriptions": [{"name": "s"}, {"name": "t"}]}),
        ("subscriptions(name,labels/team)", {"subscriptions": [{"name": "s", "labels": {"team": "blue"}}, BOTH[1]]}),
        ("subscriptions/labels, nextPageToken", {"subscriptions": [{"labels": LABELS}, {}], "nextPageToken": "n"}),
        ("subscriptions/labels(*)", {"subscriptions": [{"labels": LABELS}, {}]}),
        ("subscriptions/name,subscriptions", {"subscriptions": BOTH}),
        ("subscriptions/retry_policy/minimumBackoff", {"subscriptions": [{"retryPolicy": SHORT}, {}]}),
        (
            "subscriptions/name,subscriptions(retryPolicy(minimumBackoff))",
            {"subscriptions": [{"name": "s", "retryPolicy": SHORT}, BOTH[1]]},
        ),
    ],
)
def test_a_mask_selects_fields(mask: str, part: dict[str, Any]) -> None:
    assert select_fields(ANSWER, parse_fields(mask, KIND)) == part


@pytest.mark.parametrize(
    "mask",
    [
        *("absent", "subscriptions/absent", "nextPageToken/x", "subscriptions(", "subscriptions(name", "name)x"),
        *(",", "nextPageToken,,subscriptions", "/", " ", "subscriptions/"),
        "subscriptions" + "(subscriptions" * 30,
        "x" * 5000,
    ],
)
def test_an_invalid_mask_is_refused_by_name(mask: str) -> None:
    with pytest.raises(CallError, match="Invalid field selection") as refusal:
        parse_fields(mask, KIND)
    assert refusal.value.code.name == "INVALID_ARGUMENT"
    assert len(refusal.value.message) < 200
