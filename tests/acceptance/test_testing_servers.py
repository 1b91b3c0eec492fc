"""Servers of the test kit without pytest: settings, failures and closing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.errors import InvalidArgumentError, UnavailableError
from penstock.testing import Server, server, vendors

SECONDS = 60.0  # only a failing test waits this long


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nope": 1}, "nope: unknown setting"),
        ({"data_dir": "somewhere"}, "data_dir: unknown setting; did you mean data?"),
        ({"http_port": "off"}, "http_port: the test kit needs the admin API; set a port, or 0 for any free one"),
        ({"text_port": "x"}, "text_port: expected a port from 0 to 65535 or \"off\", not 'x'"),
        ({"ready_file": "x"}, "ready_file: cannot be set in the test kit; read addresses from server['http']"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(sentence)}$"), server(**settings):
        pass


def test_a_server_that_does_not_start_says_why_in_one_line() -> None:
    expected = "^The server did not start: .*azure_accounts: account 1 needs another name.*$"
    with pytest.raises(UnavailableError, match=expected) as raised, server(azure_accounts="x"):
        pass
    assert "\n" not in raised.value.message


def test_settings_of_all_kinds(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with server(data=folder, push_allow=["127.0.0.0/8", "::1/128"], azure_port="off", log_requests=False) as own:
        assert folder.is_dir()
        with pytest.raises(UnavailableError, match="This server has no address for 'azure'; it has http, pubsub, text"):
            own.project().azure_queue_service()


def test_a_held_publish_is_stored_before_the_project_ends(penstock: Server) -> None:
    project = penstock.project()
    publisher, orders = project.google_publisher(), project.topic("orders")
    publisher.create_topic(name=orders)
    fault = project.faults.add(door="pubsub", verb="publish", effect="hold")
    published = publisher.publish(orders, b"one")
    fault.wait()
    project.end()
    assert published.result(SECONDS)


def test_closing_waits_for_a_retried_publish(penstock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's next attempt may be seconds away.

    The project does not wait for it, and the client gets an answer.
    """
    monkeypatch.setattr(vendors, "CLOSE_SECONDS", 0)
    project = penstock.project()
    publisher, orders = project.google_publisher(), project.topic("orders")
    publisher.create_topic(name=orders)
    fault = project.faults.add(door="pubsub", verb="publish", error="unavailable")
    published = publisher.publish(orders, b"one")
    fault.wait(2, SECONDS)
    project.end()
    error = published.exception(SECONDS)
    assert error is None or "Resource not found" in str(error)


def test_a_client_that_the_test_stopped_can_be_closed(penstock: Server) -> None:
    project = penstock.project()
    project.google_publisher().stop()
    project.google_subscriber().close()
    project.azure_queue_service().close()
    project.text_client().close()
    project.end()
