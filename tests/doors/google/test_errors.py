"""The gRPC code and the REST status of errors of the broker, of bugs and of overdue calls."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.doors.google import messages as m
from penstock.doors.google.errors import CODES
from penstock.doors.google.framing import frame_message
from penstock.doors.google.http2 import frames as h2
from tests.doors.google.harness import Client, rest
from tests.doors.google.test_http2 import ASKING, GET_TOPIC, connected, encode, request

STATUSES = {  # from Google's table of errors
    errors.InvalidArgumentError: ("INVALID_ARGUMENT", 400),
    errors.NotFoundError: ("NOT_FOUND", 404),
    errors.AlreadyExistsError: ("ALREADY_EXISTS", 409),
    errors.PermissionDeniedError: ("PERMISSION_DENIED", 403),
    errors.ResourceExhaustedError: ("RESOURCE_EXHAUSTED", 429),
    errors.FailedPreconditionError: ("FAILED_PRECONDITION", 400),
    errors.UnavailableError: ("UNAVAILABLE", 503),
    errors.DamagedStoreError: ("DATA_LOSS", 500),
    errors.InternalError: ("INTERNAL", 500),
}


def publishing(client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[tuple[str, str], int, str]:
    """Return the gRPC code and text, and the REST status and its name, of a publish that fails with this error."""
    topic = client.topic()

    async def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(client.harness.queue, "publish", fail)
    refused = client.refused("Publish", topic=topic, messages=[m.PubsubMessage(data=b"x")])
    status, answer = rest(client.harness.address, "POST", f"/v1/{topic}:publish", {"messages": [{"data": "eA=="}]})
    return refused, status, answer["error"]["status"]


@pytest.mark.parametrize(("kind", "code", "status"), [(kind, *row) for kind, row in STATUSES.items()])
def test_an_error_of_the_broker_has_its_code_and_its_status(
    client: Client, monkeypatch: pytest.MonkeyPatch, kind: type[errors.PenstockError], code: str, status: int
) -> None:
    refused, found, name = publishing(client, monkeypatch, kind("a sentence"))
    assert (refused, found, name) == ((code, "a sentence"), status, code)


def test_every_error_of_the_broker_is_tested() -> None:
    assert STATUSES.keys() == CODES.keys()


def test_a_bug_is_internal_and_its_text_is_not_sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert publishing(client, monkeypatch, KeyError("secret")) == (("INTERNAL", "Internal error."), 500, "INTERNAL")


def test_a_call_whose_deadline_is_over_is_not_begun(client: Client) -> None:
    """The code is DEADLINE_EXCEEDED, number 4. The message is not parsed."""
    with connected(client.harness) as peer:
        peer.greet()
        body = h2.frame(h2.DATA, h2.END_STREAM, 1, frame_message(encode(ASKING)))
        peer.send(request(1, GET_TOPIC, ("grpc-timeout", "1n")), body)
        assert peer.answer(1)["grpc-status"] == "4"
