"""The rules for docstrings, lengths, names and error handling of the sources, and proof that each can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.shape import (
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    docstring_faults,
    length_faults,
    name_faults,
    nesting_faults,
)
from tests.tidy.sources import build, everywhere, modules


def test_every_module_opens_with_a_docstring() -> None:
    assert docstring_faults(everywhere()) == []


def test_files_and_functions_stay_short() -> None:
    assert length_faults(everywhere()) == []


def test_names_say_something() -> None:
    assert name_faults(everywhere()) == []


def test_parsers_handle_text_that_is_nested_too_deeply() -> None:
    assert nesting_faults(everywhere()) == []


def test_a_missing_docstring_is_found(tmp_path: Path) -> None:
    package = build(tmp_path, {"a.py": '"""What it is for."""\n', "b.py": "# only a comment\n", "c/__init__.py": ""})
    assert docstring_faults(modules(package)) == [
        "penstock.b: opens without a docstring",
        "penstock.c: opens without a docstring",
    ]


def test_a_long_file_is_found(tmp_path: Path) -> None:
    package = build(tmp_path, {"fits.py": "x = 1\n" * FILE_LINES_MAX, "long.py": "x = 1\n" * (FILE_LINES_MAX + 1)})
    assert length_faults(modules(package)) == ["penstock.long: 501 lines, at most 500"]


@pytest.mark.parametrize("opening", ["def pull():\n", "async def pull():\n"])
def test_a_long_function_is_found(tmp_path: Path, opening: str) -> None:
    fits, long = (opening + "    x = 1\n" * lines for lines in (FUNCTION_LINES_MAX - 1, FUNCTION_LINES_MAX))
    package = build(tmp_path, {"fits.py": fits, "long.py": long})
    assert length_faults(modules(package)) == ["penstock.long:1: pull has 61 lines, at most 60"]


@pytest.mark.parametrize("name", ["QueueManager", "HTTPHandler", "HelperQueue", "_JournalImpl", "MiscUtils"])
def test_an_empty_class_name_is_found(tmp_path: Path, name: str) -> None:
    package = build(tmp_path, {"queue.py": f"class {name}:\n    pass\n"})
    assert name_faults(modules(package)) == [f"penstock.queue:1: empty name {name!r}"]


@pytest.mark.parametrize("name", ["utils.py", "common/queue.py", "queue_helpers.py"])
def test_an_empty_file_name_is_found(tmp_path: Path, name: str) -> None:
    assert len(name_faults(modules(build(tmp_path, {name: ""})))) == 1


def test_a_name_that_only_contains_the_letters_passes(tmp_path: Path) -> None:
    package = build(tmp_path, {"handlebars.py": "class Utility:\n    pass\nclass Impling:\n    pass\n"})
    assert name_faults(modules(package)) == []


@pytest.mark.parametrize("parser", ["json.loads(text)", "msgspec.json.decode(text, type=dict)"])
@pytest.mark.parametrize("handler", ["except ValueError:", "except (ValueError, KeyError):"])
def test_a_parser_without_a_handler_for_deep_text_is_found(tmp_path: Path, parser: str, handler: str) -> None:
    lines = f"try:\n    a = [{parser}]\n{handler}\n    a = []\n"
    package = build(tmp_path, {"a.py": lines, "b.py": f"{lines}except RecursionError:\n    a = []\n"})
    assert nesting_faults(modules(package)) == ["penstock.a:1: RecursionError is not handled"]
