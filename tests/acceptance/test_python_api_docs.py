"""Every code block of docs/python-api.md runs, and calls in docstrings parse."""

from __future__ import annotations

import ast
import asyncio
import re
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NAMES = {name: getattr(penstock, name) for name in penstock.__all__}
NAMES |= {"asyncio": asyncio, "datetime": datetime, "timedelta": timedelta, "UTC": UTC}


def test_the_page_begins_with_a_whole_program(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[0], "docs/python-api.md", "exec"), {})
    assert capsys.readouterr().out == "b'order 1' {'shop': 'north'}\n"


@pytest.mark.parametrize("number", range(1, len(BLOCKS)))
def test_a_block_runs(number: int) -> None:
    scope: dict[str, Any] = dict(NAMES)
    source = "async def block(pubsub, topic, subscription):\n" + textwrap.indent(BLOCKS[number], "    ")
    exec(compile(source, f"docs/python-api.md, block {number}", "exec"), scope)
    asyncio.run(_run(scope["block"]))


async def _run(block: Any) -> None:
    async with penstock.PubSub() as pubsub, asyncio.timeout(10):
        topic = await pubsub.create_topic("orders")
        await block(pubsub, topic, await topic.create_subscription("billing"))


def test_every_public_name_is_typed_and_explained() -> None:
    """Every public method has a docstring, or a name that needs none."""
    for name in ("PubSub", "Topic", "Subscription", "Message", "Snapshot"):
        assert ">>>" in (getattr(penstock, name).__doc__ or ""), f"{name} has no example call"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src" / "penstock" / "pubsub").glob("*.py")), ids=lambda path: path.name
)
def test_calls_shown_in_docstrings_parse(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            lines = [line.strip() for line in (ast.get_docstring(node) or "").splitlines()]
            code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
            compile(code, f"{path.name}:{node.name}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
