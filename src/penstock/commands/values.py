"""Values of plain options, read here: what newer releases of typer import for that takes longer than most commands."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import typer

PLAIN: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: "text",
}


class PlainValue:
    """Reads the values of a parameter, as what typer's `get_runtime_param` answers with does."""

    def __init__(self, parameter: Any) -> None:
        described = parameter.type_descriptor
        self._kind = described.annotation
        self._least, self._most = described.parameter_info.min, described.parameter_info.max

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if self._kind == list[str]:
            return list(value) if value is not None else ()
        if value is None or self._kind in (str, bool):  # a switch has no text
            return value
        try:
            number = self._kind(value)
            if not -math.inf < number < math.inf:
                raise ValueError
        except ValueError:
            raise typer.BadParameter(f"{value!r} is not {PLAIN[self._kind]}", ctx=ctx, param=param) from None
        if self._least is not None and not number >= self._least:
            raise typer.BadParameter(f"{value} is less than {self._least}", ctx=ctx, param=param)
        if self._most is not None and not number <= self._most:
            raise typer.BadParameter(f"{value} is more than {self._most}", ctx=ctx, param=param)
        return number


def read_plain_values(parameters: list[Any]) -> None:
    """Only where typer asks for a reader, and only what is as plain as that."""
    for each in parameters:
        described = getattr(each, "type_descriptor", None)
        if described is not None and hasattr(each, "get_runtime_param") and described.annotation in PLAIN:
            each.get_runtime_param = partial(PlainValue, each)
