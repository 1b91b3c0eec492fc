"""Templates for messages and for bodies."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.templates import fill, pairs, parse_template, render
from tests.unit.commands.test_value_parsers import NOW

MESSAGE: dict[str, Any] = {
    "id": "1007",
    "topic": "projects/p/topics/orders",
    "offset": 7,
    "publish_time": "2026-11-15T10:00:00.123456Z",
    "data": "häm",
    "attributes": {"a": "1", "b": "2"},
    "ordering_key": "k",
    "size": 4,
}


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (r"%t[%p] %o %k %s\n", "orders[p] 7 k häm\n".encode()),
        (r"%i\t%S\t%K\t%T\t%h", b"1007\t4\t1\t1794736800123\ta=1,b=2"),
        (r"100%%\\ \x41\0", b"100%\\ A\0"),
        ("", b""),
    ],
)
def test_a_template_is_filled(template: str, written: bytes) -> None:
    assert render(parse_template(template), MESSAGE) == written


def test_a_body_that_is_no_text_is_written_as_it_is() -> None:
    message = {**MESSAGE, "data": None, "data_base64": base64.b64encode(b"\xff\x00").decode()}
    assert render(parse_template("%s %S"), message) == b"\xff\x00 2"


@pytest.mark.parametrize("template", ["%x", "50%", r"\q", "a\\", r"\xZZ"])
def test_an_unknown_placeholder_is_one_sentence(template: str) -> None:
    with pytest.raises(WrongUsageError, match=r"Unknown .* in the template. Known: "):
        parse_template(template)


def test_bodies_have_variables_and_keep_their_json() -> None:
    filled = fill('{"id": "{uuid}", "n": {n}, "at": "{now}", "ms": {ms}, "r": {random}, "x": {y}}', 3, NOW, str, int)
    assert filled == '{"id": "", "n": 3, "at": "2026-11-15T10:00:00.000000Z", "ms": 1794736800000, "r": 0, "x": {y}}'


def test_pairs_are_parsed_and_errors_name_their_purpose() -> None:
    assert pairs(["a=1", "b=x=y", "c="], "An attribute") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(WrongUsageError, match="An attribute must be KEY=VALUE"):
            pairs([wrong], "An attribute")
