"""Flags that set the options of topics and subscriptions, made from the records in `broker/model.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from penstock.broker.model import OptionSpec, SubscriptionOptions, TopicOptions, option_specs
from penstock.commands.parameters import WholeNumber, with_all
from penstock.commands.templates import pairs
from penstock.commands.value_parsers import parse_duration, parse_size

METAVARS = {"duration": "DURATION", "bytes": "SIZE", "count": "N", "topic": "TOPIC", "labels": "KEY=VALUE"}
SETTINGS: dict[str, dict[str, Any]] = {
    "labels": {"multiple": True},
    "switch": {"default": None},
    "count": {"type": WholeNumber()},
}


def _specs(record: type[SubscriptionOptions | TopicOptions]) -> dict[str, OptionSpec]:
    """Return the options that have a flag, by the names of their parameters."""
    return {spec.flag.replace("-", "_"): spec for spec in option_specs(record).values() if spec.flag}


def _option(spec: OptionSpec) -> Any:
    if spec.kind == "switch":
        return click.option(f"--{spec.flag}/--no-{spec.flag}", default=None, help=spec.help)
    metavar = METAVARS.get(spec.kind, spec.flag.upper())
    more = " Can be repeated." if spec.kind == "labels" else ""
    return click.option(f"--{spec.flag}", metavar=metavar, help=spec.help + more, **SETTINGS.get(spec.kind, {}))


with_topic_options = with_all(*map(_option, _specs(TopicOptions).values()))
with_subscription_options = with_all(*map(_option, _specs(SubscriptionOptions).values()))


def read_options(record: type[SubscriptionOptions | TopicOptions], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as the admin API takes them."""
    options: dict[str, Any] = {}
    for name, spec in _specs(record).items():
        value = values[name]
        if value in (None, ()):
            continue
        if spec.kind == "duration":
            value = parse_duration(value, f"--{spec.flag}")
        elif spec.kind == "bytes":
            value = parse_size(value, f"--{spec.flag}")
        elif spec.kind == "labels":
            value = pairs(value, "A label")
        whole, _, part = spec.name.partition(".")
        if part:
            options.setdefault(whole, {})[part] = value
        else:
            options[whole] = value
    return options
