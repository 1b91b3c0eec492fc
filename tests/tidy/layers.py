"""Who may import whom.

    cli -> commands -> server -> assembly -> doors | spark | pubsub -> services -> engine -> journal -> broker -> errors

Imports go to the right or stay at home, `wire` and `settings` stand beside the line, and the
table is complete: a package that is not in it is an error, so that placing it is a decision somebody makes. The
data source, `pyspark_penstock`, stands apart: it knows nothing of the broker, and only `spark` knows it.
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
    "wire/turns": set(),  # long work beside other tasks
    "fields": set(),
    "wording": set(),
    "names": {"errors"},
    "durations": set(),
    "distribution": set(),
    "terminal": set(),
    "options": {"fields"},  # doors/*/options.py: the settings of a door, which the record of all settings nests
    "settings": {"errors", "fields", "options"},
    "journal": {"errors", "wording", "broker"},
    "engine": BELOW_ENGINE,
    "services": BELOW_SERVICES,  # what decides above the engine, for more than one door
    "doors": BELOW_DOORS | {"doors/azure/names", "durations", "memory", "options"},
    "seeding": BELOW_DOORS | {"doors", "emulators/seeds"},
    "emulators": BELOW_ASSEMBLY | {"emulators/seeds", "logs", "terminal"},  # stand-ins for the vendors' emulators
    "emulators/seeds": {"errors", "engine", "seeding", "seeding/topology"},  # their seeds, as documents of ours
    "emulators/azurite_ports": BELOW_DOORS | {"doors", "options"},  # ports of services that are not here
    "seeding/topology": {"errors", "broker"},  # records: what a seed describes
    "spark": {"errors", "terminal", "wording"},  # it reaches the broker as everybody else's Spark does
    "pubsub": BELOW_DOORS,
    "text": {"errors", "wire"},  # a client: it shares the frames with the door, and nothing else
    "admin": {"errors"},  # a client: it reaches the server as everybody's programs do
    "doors/azure/names": set(),  # how that door spells the ids of messages
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
    },  # and its server
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
    },  # it measures as a client
    "commands/pipeline": {"errors", "spark", "terminal", "wording", "commands/help", "commands/parameters"},
    "cli": {PUBLIC, "errors", "commands", "commands/help", "commands/parameters"},
    "__main__": {"cli"},
}

# The journals that need more than this process: `assembly` names them, everybody else is handed one. The memory
# journal needs nothing, so a bare queue may make its own.
JOURNALS = {"sqlite", "postgres"}

# What a door may know of the broker and the engine: the port, and the records and pure functions that its verbs speak.
DOORS_SEE = {
    "broker": {"counts", "facts", "filters", "limits", "model", "names", "retry"},
    "engine": {"options", "port", "statistics"},
}

# The services that each door calls. A door that is not here calls none.
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

# The data source travels to executors that have nothing else of ours; Spark imports it to see what it is, so Arrow
# waits until it is needed.
DATA_SOURCE = "pyspark_penstock"
DATA_SOURCE_NEEDS = {"pyspark", "pyarrow", DATA_SOURCE}
DATA_SOURCE_NEEDS_LATE = {"pyarrow"}
KNOWS_DATA_SOURCE = {"spark"}

# What the pure broker may not reach for: the clock, chance, threads, files, sockets, other processes, logs.
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
    """The row of the table that a module belongs to: its own where it has one, else that of its package."""
    own = "options" if len(place) == 3 and place[::2] == ("doors", "options") else "/".join(place)
    return own if own in MAY_IMPORT else place[0] if place else PUBLIC


def imports(module: Module, places: set[tuple[str, ...]]) -> Iterator[tuple[int, str, tuple[str, ...] | None]]:
    """(line, full name, place in the package or None if it is from outside) of every import, wherever it stands."""
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
    """The longest part of a dotted name that is a module of ours; what follows is something inside it."""
    if name[0] != "penstock":
        return None
    inner = name[1:]
    while inner and inner not in places:
        inner = inner[:-1]
    return inner


def layer_faults(tree: list[Module]) -> list[str]:
    """Modules that are not placed, and imports that go the wrong way."""
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
    """Doors that import one another, look behind their port or call undeclared services, and journals that are named
    outside of assembly."""
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
    """What ties the data source to the broker, makes it heavy, or makes others depend on it."""
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
    """Lines that do not run when the module is imported: those of functions, and what only type checkers read."""
    late = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    typing = [
        node for node in ast.walk(module.tree) if isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING"
    ]
    return {line for node in [*late, *typing] for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def purity_faults(tree: list[Module]) -> list[str]:
    """What makes the broker depend on anything but its inputs."""
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
