"""Rules for the shape of a source file: opening docstring, maximum length, meaningful names, complete error handling.

A file of more than 500 lines may be two files in one. A lower limit would make people fold lines to fit.
"""

from __future__ import annotations

import ast
import re

from tests.tidy.sources import Module, functions

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
EMPTY_NAMES = {"manager", "handler", "helper", "util", "common", "misc", "impl", "processor"}
PARSERS = {"msgspec.json.decode", "json.loads", "json.load", "tomllib.loads", "tomllib.load"}
BAD_TEXT = {"ValueError", "msgspec.DecodeError", "json.JSONDecodeError", "tomllib.TOMLDecodeError"}
ALL_ERRORS = {"RecursionError", "Exception", "BaseException"}


def docstring_faults(tree: list[Module]) -> list[str]:
    return [f"{module.label}: opens without a docstring" for module in tree if not ast.get_docstring(module.tree)]


def length_faults(tree: list[Module]) -> list[str]:
    faults = []
    for module in tree:
        lines = len(module.text.splitlines())
        if lines > FILE_LINES_MAX:
            faults.append(f"{module.label}: {lines} lines, at most {FILE_LINES_MAX}")
        for node in functions(module.tree):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                faults.append(
                    f"{module.label}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
                )
    return faults


def name_faults(tree: list[Module]) -> list[str]:
    """Report classes, files and folders with a meaningless name."""
    faults = []
    for module in tree:
        faults += [f"{module.label}: empty name {part!r}" for part in module.place if _is_empty(part)]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and _is_empty(node.name):
                faults.append(f"{module.label}:{node.lineno}: empty name {node.name!r}")
    return faults


def nesting_faults(tree: list[Module]) -> list[str]:
    """Report parsers that handle invalid text, but not the RecursionError for text that is nested too deeply."""
    faults = []
    for module in tree:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Try) or not any(
                _parses(inner) for part in node.body for inner in ast.walk(part)
            ):
                continue
            handled = {ast.unparse(kind) for handler in node.handlers for kind in _kinds(handler)}
            if handled & BAD_TEXT and not handled & ALL_ERRORS:
                faults.append(f"{module.label}:{node.lineno}: RecursionError is not handled")
    return faults


def _parses(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in PARSERS


def _kinds(handler: ast.ExceptHandler) -> list[ast.expr]:
    if handler.type is None:
        return [ast.Name("BaseException")]
    return handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]


def _is_empty(name: str) -> bool:
    words = (word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))
    return any(word in EMPTY_NAMES or word.removesuffix("s") in EMPTY_NAMES for word in words)
