"""Words and calls that may not stand where they stand.

The rule kept here: the broker and its journals speak the broker's own language, and no source file reaches for
what would block, run foreign code or start a process.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

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
# Whose work is to start a program: it asks each Java for its version. The server never imports it.
EXCEPTIONS = {("spark", "java"): "no subprocess"}


def vendor_faults(package: Path) -> list[str]:
    """Vendor words in the code, comments or SQL of the layers that serve every vendor alike."""
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
    """Local name -> what it stands for, so that neither `as` nor `from` hides a call."""
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
