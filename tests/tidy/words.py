"""Rules for words and calls that are not allowed in some places.

The layers below the doors use the broker's own terms, names follow docs/glossary.md, and no source file calls
functions that block, run foreign code or start a process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.tidy.sources import Module, dotted

VENDOR_WORDS = re.compile(
    r"(?<![a-z])ack[ _-]?ids?(?![a-z])|pop[ _-]?receipt|pub[ /_-]?sub|azure|goog(?:le)?", re.IGNORECASE
)
VENDOR_FREE = ("broker", "journal")

BANNED_MODULES = {
    "marshal": "reading it back can run anything",
    "pickle": "reading it back can run anything",
    "shelve": "it is pickle",
    "subprocess": "the server starts no processes",
}
BANNED_CALLS = {
    "eval": "it runs text",
    "exec": "it runs text",
    "os.popen": "the server starts no processes",
    "os.system": "the server starts no processes",
    "time.sleep": "wait for what you wait for, with a timeout",
    "yaml.load": "it builds anything the text names",
}
# Modules whose purpose is to start processes. The server imports none of them.
EXCEPTIONS = {
    ("spark", "java"): "no subprocess",  # asks each Java for its version
    ("testing", "servers"): "no subprocess",  # the test kit starts the server
    ("journal", "backup", "pacing"): "no time.sleep()",  # a process that gives the server access to the disk in between
}

NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def vendor_faults(package: Path) -> list[str]:
    """Report vendor words in the code, comments or SQL of the layers that serve all vendors."""
    files = [
        path for name in VENDOR_FREE for path in sorted((package / name).rglob("*")) if path.suffix in {".py", ".sql"}
    ]
    return [
        f"{path.relative_to(package)}:{number}: vendor word {match.group()!r}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in VENDOR_WORDS.finditer(line)
    ]


def call_faults(tree: list[Module]) -> list[str]:
    faults = []
    for module in tree:
        names = _imported_names(module.tree)
        excepted = EXCEPTIONS.get(module.place)
        for node in ast.walk(module.tree):
            found = [fault for fault in _faults_of(node, names) if fault.partition(":")[0] != excepted]
            faults += [f"{module.label}:{node.lineno}: {fault}" for fault in found]  # type: ignore[attr-defined]
    return faults


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return each local name and its full name, so that neither `as` nor `from` hides a call."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _faults_of(node: ast.AST, names: dict[str, str]) -> list[str]:
    imported: list[str] = []
    if isinstance(node, ast.Import):
        imported = [alias.name.split(".")[0] for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        imported = [node.module.split(".")[0]]
    elif isinstance(node, ast.Call):
        head, _, rest = dotted(node.func).partition(".")
        name = names.get(head, head) + (f".{rest}" if rest else "")
        return [f"no {name}(): {BANNED_CALLS[name]}"] if name in BANNED_CALLS else []
    return [f"no {name}: {BANNED_MODULES[name]}" for name in imported if name in BANNED_MODULES]


class Replaced(NamedTuple):
    """A row of the glossary's last table."""

    word: str
    instead: str
    in_prose: bool


def replaced_words(glossary: str) -> list[Replaced]:
    table = glossary.partition("## Words we do not use")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return [Replaced(word, instead, in_prose == "yes") for word, instead, in_prose in rows[2:]]


def replaced_name_faults(tree: list[Module], replaced: list[Replaced]) -> list[str]:
    """Report files, folders, classes and functions with a name that the glossary replaces."""
    faults = []
    for module in tree:
        named = [(0, part) for part in module.place]
        named += [(node.lineno, node.name) for node in ast.walk(module.tree) if isinstance(node, NAMED)]
        faults += [
            f"{module.label}:{line}: {name!r} says {each.word!r}: {each.instead}"
            for line, name in named
            for each in replaced
            if each.word in _words(name)
        ]
    return faults


def _words(name: str) -> set[str]:
    """Return the words of a name in lower case and singular. "Dead letter" is one term."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    text = re.sub(r"\bdead letters?\b", "", " ".join(words))
    return {form for word in text.split() for form in (word, word.removesuffix("s"))}


def replaced_prose_faults(root: Path, files: Iterable[Path], replaced: list[Replaced]) -> list[str]:
    """Report the same words in comments, docstrings and pages, unless they have an ordinary meaning there."""
    words = "|".join(each.word for each in replaced if not each.in_prose)
    pattern = re.compile(rf"\b(?:{words})(?:s|ed|ing)?\b", re.IGNORECASE)
    return [
        f"{path.relative_to(root)}:{number}: {match.group()!r} is replaced by the glossary"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in pattern.finditer(line)
    ]


# Another project is called penstock on the package index. The package of this project is penstock-broker.
_FOREIGN_NAME = re.compile(
    r"(?:pip3?|pipx|uv)\s+(?:tool\s+|pip\s+)?(?:install|add|run)\s[^`;&|#\n]*?(?<![\w/.-])['\"]?penstock(?![\w./-])"
    r"|(?<![\w/.-])penstock\[(?:google|azure|flight|spark|delta|test|all)\b"
)


def foreign_name_faults(root: Path, files: Iterable[Path]) -> list[str]:
    """Report lines that would install the other project: `pip install penstock`, or an extra of it."""
    return [
        f"{path.relative_to(root)}:{number}: {match.group()!r} names another project: write penstock-broker"
        for path in files
        if path.suffix in {".py", ".md", ".toml", ".txt", ".in", ".yaml", ".js", ".mjs", ".html", ""}
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for match in _FOREIGN_NAME.finditer(line)
    ]


# Output of commands may contain names and other data. `terminal.tell` and `Output` make it safe for a terminal.
PRINTERS = {("commands", "output"), ("commands", "exit_codes")}
PRINTERS |= {("commands", "completion")}  # prints to a shell, and leaves out names that are not safe
_STYLED = {"level"}  # constant words in colour
_ESCAPED = {"safe_text", "plain", "style", "escape", "installed_version"}


def print_faults(tree: list[Module]) -> list[str]:
    """Report calls of print() in commands whose text is not constant, a number or escaped."""
    return [
        f"{module.label}:{node.lineno}: print() of data: use terminal.tell()"
        for module in tree
        if module.place[:1] == ("commands",) and module.place not in PRINTERS
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func) in ("print", "click.echo", "sys.stdout.write")
        if not all(_is_printable(each) for each in node.args)
    ]


def _is_printable(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return all(_is_printable(each) for each in node.values)
    if isinstance(node, ast.FormattedValue):  # a number has a format that text does not have
        return node.format_spec is not None and "," in ast.unparse(node.format_spec)
    if isinstance(node, ast.Name) and node.id in _STYLED:
        return True
    called = {dotted(each.func).rpartition(".")[2] for each in ast.walk(node) if isinstance(each, ast.Call)}
    called |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return isinstance(node, ast.Constant) or bool(called & _ESCAPED)
