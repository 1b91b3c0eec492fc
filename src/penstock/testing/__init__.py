"""The test kit: a server in memory for tests, with a clock that the tests move.

    from penstock.testing import server

    with server() as penstock:
        project = penstock.project()
        publisher = project.google_publisher()
        ...
        project.clock.advance(600)

For pytest there are fixtures (docs/testing.md). Each name is loaded on first use, so that the plugin costs nothing
where it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.clock import ProjectClock
    from penstock.testing.deliveries import Delivery
    from penstock.testing.faults import Fault, Faults
    from penstock.testing.messages import Message
    from penstock.testing.project import Project
    from penstock.testing.resources import Queue, Subscription, Topic
    from penstock.testing.servers import Server, server

_HOME_OF = {
    "Delivery": "deliveries",
    "Fault": "faults",
    "Faults": "faults",
    "Message": "messages",
    "Project": "project",
    "ProjectClock": "clock",
    "Queue": "resources",
    "Server": "servers",
    "Subscription": "resources",
    "Topic": "resources",
    "server": "servers",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


__all__ = ["Delivery", "Fault", "Faults", "Message", "Project", "ProjectClock", "Queue", "Server", "Subscription"]
__all__ += ["Topic", "server"]
