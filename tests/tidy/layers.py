"""The layers of the project: which package may import which.

    cli -> commands -> server -> assembly -> doors | spark | pubsub -> services -> engine -> journal -> broker -> errors

A module imports from packages to the right of its own, or from its own. `wire` and `settings` are outside of this
order. A package that is missing from the table is an error, so that placing it is a decision. The data source,
`pyspark_penstock`, is separate: it does not import the broker, and only `spark` imports it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests.tidy.sources import Module, dotted

PUBLIC = "__init__"  # penstock/__init__.py: the public names

BELOW_ENGINE = {"errors", "wording", "broker", "journal"}
BELOW_SERVICES = BELOW_ENGINE | {"engine", "names", "seeding/topology", "wire/turns"}
BELOW_DOORS = BELOW_SERVICES | {"services", "wire"}
BELOW_ASSEMBLY = BELOW_DOORS | {"doors", "seeding", "spark", "pubsub", "settings"}
BELOW_CLI = BELOW_ASSEMBLY | {"admin", "assembly", "server"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "broker": {"errors"},
    "wire": {"errors", "wording"},
    "wire/turns": set(),  # runs long work beside other tasks
    "fields": set(),
    "wording": set(),
    "names": {"errors"},
    "durations": set(),
    "distribution": set(),
    "terminal": set(),
    "options": {"fields"},  # doors/*/options.py: the settings of a door, which the record of all settings contains
    "settings": {"errors", "fields", "options"},
    "journal": {"errors", "wording", "broker"},
    "engine": BELOW_ENGINE,
    "services": BELOW_SERVICES,  # services above the engine, for several doors
    "doors": BELOW_DOORS | {"doors/azure/names", "durations", "memory", "options"},
    "seeding": BELOW_DOORS | {"doors", "emulators/seeds"},
    "emulators": BELOW_ASSEMBLY | {"emulators/seeds", "logs", "terminal"},  # replacements of the vendors' emulators
    "emulators/seeds": {"errors", "engine", "seeding", "seeding/topology"},  # converts their seeds into documents
    "emulators/azurite_ports": BELOW_DOORS | {"doors", "options"},  # the default ports of other services
    "seeding/topology": {"errors", "broker"},  # the records that a seed describes
    "spark": {"errors", "terminal", "wording"},  # uses the broker through the public data source, as any Spark does
    "pubsub": BELOW_DOORS,
    "text": {"errors", "wire"},  # a client: it shares only the frames with the door
    "admin": {"errors"},  # a client: it uses the server through its public API
    "doors/azure/names": set(),  # the spelling of message ids in that door
    "testing": {
        "errors",
        "names",
        "admin",
        "text",
        "seeding",
        "seeding/topology",
        "settings",
        "wording",
        "doors/azure/names",
    },  # and the server of the door
    "testing/process": BELOW_ASSEMBLY | {"assembly", "logs", "server", "testing"},  # the main module of that server
    "memory": set(),
    "banner": {"distribution", "doors", "settings", "wording"},
    "logs": {"settings", "terminal", "wire"},
    "assembly": BELOW_ASSEMBLY | {"distribution", "emulators/azurite_ports"},
    "server": BELOW_ASSEMBLY | {"assembly", "banner", "logs", "memory", "terminal"},
    PUBLIC: BELOW_CLI | {"distribution"},
    "doors/flight/process": BELOW_ASSEMBLY | {"assembly", "memory"},  # the main module of the reader process
    "commands": BELOW_CLI
    | {"emulators", "commands/help", "commands/parameters", "distribution", "terminal", "durations", "logs"},
    "commands/help": {"distribution"},
    "commands/parameters": {"commands/help"},
    "commands/text": {"errors", "terminal", "text", "commands/help", "commands/parameters"},
    "commands/bench": {
        "errors",
        "terminal",
        "text",
        "commands",
        "commands/help",
        "commands/parameters",
    },  # measures as a client
    "commands/pipeline": {"errors", "spark", "terminal", "wording", "commands/help", "commands/parameters"},
    "cli": {PUBLIC, "errors", "commands", "commands/help", "commands/parameters"},
    "__main__": {"cli"},
}

# The journals that need more than this process. Only `assembly` names them, and passes them to other packages. The
# memory journal needs nothing else, so a queue may create its own.
JOURNALS = {"sqlite", "postgres"}

# The parts of the broker and the engine that a door may import: the port, and the records and pure functions that its
# methods use.
DOORS_SEE = {
    "broker": {"counts", "facts", "filters", "limits", "model", "names", "retry"},
    "engine": {"options", "port", "statistics"},
}

# The services that each door calls. A door without a row calls none.
DOORS_CALL = {
    "azure": {"moves"},
    "http": {
        "backlogs",
        "faults",
        "moves",
        "process",
        "project_snapshots",
        "projects",
        "reading",
        "samples",
        "seeding",
        "series",
        "services",
        "stories",
        "time_travel",
        "traffic",
    },
}

# The data source is copied to executors that have no other part of Penstock. Spark imports it to read its description,
# so pyarrow must be imported late.
DATA_SOURCE = "pyspark_penstock"
DATA_SOURCE_NEEDS = {"pyspark", "pyarrow", DATA_SOURCE}
DATA_SOURCE_NEEDS_LATE = {"pyarrow"}
KNOWS_DATA_SOURCE = {"spark"}

# Modules that the pure broker must not import: clock, random numbers, threads, files, sockets, processes, logs.
# fmt: off
IMPURE = {
    "asyncio", "concurrent", "contextvars", "ctypes", "faulthandler", "ftplib", "glob", "http", "imaplib",
    "importlib", "io", "locale", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "poplib",
    "queue", "random", "sched", "secrets", "select", "selectors", "shelve", "shutil", "signal", "smtplib", "socket",
    "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid", "warnings",
    "wsgiref",
}
# fmt: on
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
EFFECTS = {"breakpoint", "input", "open", "print"}


def unit(place: tuple[str, ...]) -> str:
    """Return the row of the table for a module: its own, or that of its package."""
    own = "options" if len(place) == 3 and place[::2] == ("doors", "options") else "/".join(place)
    return own if own in MAY_IMPORT else place[0] if place else PUBLIC


def imports(module: Module, places: set[tuple[str, ...]]) -> Iterator[tuple[int, str, tuple[str, ...] | None]]:
    """Return (line, full name, place in the package or None if it is from outside) of every import in the file."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, _place(tuple(alias.name.split(".")), places)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                yield node.lineno, ".".join((*base, alias.name)), _place((*base, alias.name), places)


def _base(module: Module, node: ast.ImportFrom) -> tuple[str, ...]:
    named = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return named
    home = ("penstock", *module.place)
    up = node.level - 1 if module.is_package else node.level
    return home[: len(home) - up] + named


def _place(name: tuple[str, ...], places: set[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the longest prefix of a dotted name that is a module of the package. The rest is a name in that module."""
    if name[0] != "penstock":
        return None
    inner = name[1:]
    while inner and inner not in places:
        inner = inner[:-1]
    return inner


def layer_faults(tree: list[Module]) -> list[str]:
    """Report modules without a row, and imports that the table does not allow."""
    places = {module.place for module in tree}
    faults = []
    for module in tree:
        home = unit(module.place)
        if home not in MAY_IMPORT:
            faults.append(f"{module.label}: new package must be placed: add {home!r} to MAY_IMPORT in {__name__}")
            continue
        for line, name, place in imports(module, places):
            if place is not None and unit(place) != home and unit(place) not in MAY_IMPORT[home]:
                faults.append(f"{module.label}:{line}: {home} may not import {name}")
    return faults


def neighbour_faults(tree: list[Module]) -> list[str]:
    """Report imports of one door by another, imports past the port, undeclared services, and journals named outside of
    assembly.
    """
    places = {module.place for module in tree}
    doors = {place[1] for place in places if len(place) > 2 and place[0] == "doors"}
    doors |= {
        module.place[1]
        for module in tree
        if module.place[:1] == ("doors",) and len(module.place) == 2 and module.is_package
    }
    faults = []
    for module in tree:
        for line, name, place in imports(module, places):
            if place is None or len(place) < 2 or place[:2] == module.place[:2]:
                continue
            if place[0] == "doors" and place[1] in doors and unit(module.place) == "doors":
                faults.append(f"{module.label}:{line}: a door does not import another: {name}")
            services = DOORS_CALL.get(module.place[1], set()) if len(module.place) > 1 else set()
            if unit(module.place) == "doors" and place[0] == "services" and place[1] not in services:
                faults.append(f"{module.label}:{line}: declare in DOORS_CALL that this door calls {name}")
            if unit(module.place) == "doors" and place[1] not in DOORS_SEE.get(place[0], {place[1]}):
                faults.append(f"{module.label}:{line}: a door sees engine/port, not {name}")
            if place[0] == "journal" and place[1] in JOURNALS and unit(module.place) != "assembly":
                faults.append(f"{module.label}:{line}: only assembly names a journal: {name}")
    return faults


def apart_faults(tree: list[Module]) -> list[str]:
    """Report imports that tie the data source to the broker, make it heavy, or make other packages depend on it."""
    faults = []
    for module in tree:
        late = _late_lines(module)
        for line, name, _ in imports(module, set()):
            top = name.split(".")[0]
            where = f"{module.label}:{line}"
            if module.package != DATA_SOURCE:
                if top == DATA_SOURCE and unit(module.place) not in KNOWS_DATA_SOURCE:
                    faults.append(f"{where}: only spark may import {name}")
            elif top not in DATA_SOURCE_NEEDS and top not in sys.stdlib_module_names:
                faults.append(f"{where}: the data source may not import {name}")
            elif top in DATA_SOURCE_NEEDS_LATE and line not in late:
                faults.append(f"{where}: the data source imports {name} inside functions only")
    return faults


def _late_lines(module: Module) -> set[int]:
    """Return lines that do not run when the module is imported: bodies of functions, and imports for type checkers."""
    late = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    typing = [
        node for node in ast.walk(module.tree) if isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING"
    ]
    return {line for node in [*late, *typing] for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def purity_faults(tree: list[Module]) -> list[str]:
    """Report imports and calls that make the broker depend on anything but its inputs."""
    places = {module.place for module in tree}
    faults = []
    for module in tree:
        if unit(module.place) != "broker":
            continue
        for line, name, place in imports(module, places):
            if place is None and not _pure(name):
                faults.append(f"{module.label}:{line}: the broker may not import {name}")
        for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
            name = dotted(call.func)
            if name in EFFECTS or ".".join(name.split(".")[-2:]) in CLOCKS:
                faults.append(f"{module.label}:{call.lineno}: the broker may not call {name}()")
    return faults


def _pure(name: str) -> bool:
    top = name.split(".")[0]
    return top in sys.stdlib_module_names and top not in IMPURE
