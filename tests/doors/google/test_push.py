"""Push: the requests at an endpoint, the meaning of its answers, and forbidden endpoints."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest

from penstock.doors.google import messages as m
from penstock.doors.google.options import GoogleOptions
from penstock.engine import lookups
from penstock.errors import UnavailableError
from tests.doors.google.harness import SECONDS, Client, Harness, opened, rest


class Endpoint:
    """A small web server that records requests and answers as configured."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []  # the statuses of the next answers; after them 204
        self._changed = threading.Condition()
        endpoint = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = endpoint.note({key.lower(): value for key, value in self.headers.items()}, body)
                self.send_response(status)
                self.send_header("Location", f"{endpoint.url}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True)
        self._thread.start()

    def note(self, headers: dict[str, str], body: bytes) -> int:
        with self._changed:
            self.requests.append((headers, body))
            self._changed.notify_all()
            return self.statuses.pop(0) if self.statuses else 204

    def wait_for(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, SECONDS), len(self.requests)
            return list(self.requests)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def body_of(request: tuple[dict[str, str], bytes]) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(request[1])
    return decoded


def test_a_wrapped_message(client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, push_config={"push_endpoint": f"{endpoint.url}/here?x=1"})
    (number,) = client.publish(topic, b"hello", attributes={"k": "v"}, ordering_key="key")
    (request,) = endpoint.wait_for(1)
    body = body_of(request)
    message = body["message"]
    assert body == {"message": message, "subscription": subscription}
    assert base64.b64decode(message["data"]) == b"hello"
    assert message["attributes"] == {"k": "v"}
    assert message["messageId"] == message["message_id"] == number
    assert message["publishTime"] == message["publish_time"]
    assert message["orderingKey"] == "key"
    assert request[0]["content-type"] == "application/json"


def test_an_unwrapped_message_with_its_metadata(client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    config = {"push_endpoint": endpoint.url, "no_wrapper": {"write_metadata": True}}
    subscription = client.subscription(topic, push_config=config)
    attributes = {"kind": "test", "host": "evil", "bad name": "x", "line": "a\r\nb", "Content-Length": "1"}
    (number,) = client.publish(topic, b"\x00raw", attributes=attributes, ordering_key="key")
    ((headers, body),) = endpoint.wait_for(1)
    assert body == b"\x00raw"
    assert headers["x-goog-pubsub-subscription-name"] == subscription
    assert headers["x-goog-pubsub-message-id"] == number
    assert headers["x-goog-pubsub-publish-time"].endswith("Z")
    assert headers["x-goog-pubsub-ordering-key"] == "key"
    assert headers["kind"] == "test"
    assert headers["host"] in endpoint.url
    assert "line" not in headers
    assert headers["content-length"] == "4"


def test_an_unwrapped_message_without_metadata(client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    client.subscription(topic, push_config={"push_endpoint": endpoint.url, "no_wrapper": {}})
    client.publish(topic, b"raw", attributes={"kind": "test"})
    ((headers, body),) = endpoint.wait_for(1)
    assert body == b"raw"
    assert "kind" not in headers


@pytest.mark.parametrize("status", [102, 200, 201, 202, 204])
def test_an_answer_that_acks(harness: Harness, client: Client, endpoint: Endpoint, status: int) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, push_config={"push_endpoint": endpoint.url})
    endpoint.statuses = [status]
    client.publish(topic, b"1")
    endpoint.wait_for(1)
    client.publish(topic, b"2")
    requests = endpoint.wait_for(2)
    assert [base64.b64decode(body_of(each)["message"]["data"]) for each in requests] == [b"1", b"2"]
    assert lookups.find_subscription(harness.queue.engine, subscription)


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_an_answer_that_does_not_ack_redelivers_the_message(client: Client, endpoint: Endpoint, status: int) -> None:
    topic, grave = client.topic(), client.topic()
    policy = {"dead_letter_topic": grave, "max_delivery_attempts": 5}
    client.subscription(topic, push_config={"push_endpoint": endpoint.url}, dead_letter_policy=policy)
    endpoint.statuses = [status]
    client.publish(topic, b"again")
    requests = endpoint.wait_for(2)
    assert [body_of(each)["deliveryAttempt"] for each in requests] == [1, 2]


def test_a_key_is_pushed_in_order_and_again_from_where_it_failed(client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    endpoint.statuses = [204, 500]
    client.subscription(topic, push_config={"push_endpoint": endpoint.url}, enable_message_ordering=True)
    client.publish(topic, b"1", b"2", b"3", b"4", ordering_key="k")
    requests = endpoint.wait_for(5)
    assert [base64.b64decode(body_of(each)["message"]["data"]) for each in requests] == [b"1", b"2", b"2", b"3", b"4"]


def test_push_follows_its_settings(client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"1")
    config = {"push_endpoint": endpoint.url}
    client.call("ModifyPushConfig", subscription=subscription, push_config=config)
    endpoint.wait_for(1)
    client.call("ModifyPushConfig", subscription=subscription, push_config={})
    client.publish(topic, b"2")
    assert [each.message.data for each in client.pull(subscription)] == [b"2"]


def test_a_token_verifies_with_the_public_key(harness: Harness, client: Client, endpoint: Endpoint) -> None:
    topic = client.topic()
    token = {"service_account_email": "pusher@example.com", "audience": "me"}
    client.subscription(topic, push_config={"push_endpoint": endpoint.url, "oidc_token": token})
    client.publish(topic, b"1")
    ((headers, _),) = endpoint.wait_for(1)
    scheme, _, encoded = headers["authorization"].partition(" ")
    status, keys = rest(harness.address, "GET", "/oauth2/v3/certs")
    assert (scheme, status) == ("Bearer", 200)
    key = jwt.PyJWK(next(each for each in keys["keys"] if each["kid"] == jwt.get_unverified_header(encoded)["kid"]))
    claims = jwt.decode(encoded, key, algorithms=["RS256"], audience="me")
    assert claims["iss"] == "https://accounts.google.com"
    assert (claims["email"], claims["email_verified"]) == ("pusher@example.com", True)
    discovery = rest(harness.address, "GET", "/.well-known/openid-configuration")[1]
    assert discovery["jwks_uri"] == f"http://{harness.address}/oauth2/v3/certs"


def test_a_bug_with_one_message_does_not_end_pushing(
    harness: Harness, client: Client, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [RuntimeError("a bug"), ModuleNotFoundError("a package")]
    tokens = harness.door._push._tokens
    authorization = tokens.authorization

    async def failing(*arguments: str) -> str:
        if failures:
            raise failures.pop()
        return await authorization(*arguments)

    monkeypatch.setattr(tokens, "authorization", failing)
    topic = client.topic()
    client.subscription(topic, push_config={"push_endpoint": endpoint.url, "oidc_token": {"audience": "me"}})
    client.publish(topic, b"1")
    ((headers, _),) = endpoint.wait_for(1)
    assert (headers["authorization"][:7], failures) == ("Bearer ", [])


def test_a_queue_that_fails_for_a_while_does_not_end_pushing(
    harness: Harness, client: Client, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = [UnavailableError("The disk is full"), RuntimeError("a bug")]
    pull = harness.queue.pull

    async def failing(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await pull(*arguments, **options)

    topic = client.topic()
    monkeypatch.setattr(harness.queue, "pull", failing)
    client.subscription(topic, push_config={"push_endpoint": endpoint.url})
    client.publish(topic, b"1")
    assert len(endpoint.wait_for(1)) == 1


REFUSED = [
    "http://127.0.0.1:9/",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::a00:1]/",
    "http://8.8.8.8/",
    "ftp://example.com/",
    "https://user:secret@example.com/",
    "https://",
    "nothing",
]


@pytest.mark.parametrize("url", REFUSED)
def test_without_permission_push_reaches_no_private_address(url: str) -> None:
    with opened(GoogleOptions()) as harness, harness.connect() as client:
        topic = client.topic()
        name = "projects/p/subscriptions/abc"
        code, text = client.refused("CreateSubscription", name=name, topic=topic, push_config={"push_endpoint": url})
        assert code == "INVALID_ARGUMENT"
        assert text.startswith("Unsupported push_endpoint: ")


def test_push_does_not_go_to_this_server(harness: Harness, client: Client) -> None:
    config = m.PushConfig(push_endpoint=f"http://{harness.address}/")
    code, text = client.refused(
        "CreateSubscription", name="projects/p/subscriptions/abc", topic=client.topic(), push_config=config
    )
    assert (code, "itself" in text) == ("INVALID_ARGUMENT", True)
