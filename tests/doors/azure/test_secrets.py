"""No key, signature, token or message text is logged, whatever goes wrong."""

from __future__ import annotations

import logging

import pytest

from tests.doors.azure.harness import Harness, body_of, opened
from tests.doors.azure.signing import ACCOUNT, account_fields, query, shared_key
from tests.doors.azure.test_credentials import headers_of

CANARY = "canary-in-a-coal-mine"


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    with opened() as azure:
        azure.create("orders")
        fields = account_fields()
        target = f"/{ACCOUNT}/orders/messages"
        headers = headers_of(azure)
        authorization = shared_key("GET", target, headers)
        azure.send("GET", target, headers=headers | {"Authorization": authorization})
        azure.send("GET", f"{target}?{query(fields | {'sig': CANARY})}")
        azure.send("GET", target, headers=headers | {"Authorization": f"Bearer {CANARY}"})
        azure.put(CANARY)
        break_publish(azure, monkeypatch)
        assert azure.send("POST", f"{target}?{query(fields)}", body_of(CANARY)).status == 500
    assert "KeyError" in caplog.text
    for secret in (CANARY, fields["sig"], query(fields)[-20:], authorization.partition(":")[2]):
        assert secret not in caplog.text


def break_publish(azure: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object) -> None:
        raise KeyError(CANARY)

    monkeypatch.setattr(azure.queue, "publish", broken)
