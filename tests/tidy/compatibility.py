"""Rules for docs/compatibility.md: its rows cover every method and code of a vendor and of Penstock, and name tests.

The vendors' names come from the source of their Python clients. The source is read as text, and not imported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import distribution
from pathlib import Path

from tests.compatibility.rows import NEVER, Row
from tests.tidy.sources import PACKAGE, ROOT

METHOD = re.compile(r'"/google\.(?:pubsub|iam)\.v1\.\w+/(\w+)"')
BUILDER = re.compile(r"^def build_(\w+)_request\(", re.MULTILINE)
VENDOR_CODES = re.compile(r"# (Generic storage|Queue) values\n((?: +[A-Z_0-9]+ = \"\w+\"\n)+)")


def google_methods() -> set[str]:
    """Return every method of the services that Google's client calls."""
    files = [
        f"google/pubsub_v1/services/{service}/transports/grpc.py"
        for service in ("publisher", "subscriber", "schema_service")
    ]
    return {name for file in files for name in METHOD.findall(_text_of("google-cloud-pubsub", file))}


def azure_operations() -> set[str]:
    file = "azure/storage/queue/_generated/operations/_operations.py"
    return set(BUILDER.findall(_text_of("azure-storage-queue", file)))


def azure_codes() -> set[str]:
    """Return the error codes of queues and those of all storage services."""
    text = _text_of("azure-storage-queue", "azure/storage/queue/_shared/models.py")
    return {code for _, lines in VENDOR_CODES.findall(text) for code in re.findall(r'"(\w+)"', lines)}


def _text_of(package: str, file: str) -> str:
    return Path(str(distribution(package).locate_file(file))).read_text(encoding="utf-8")


def missing(wanted: Iterable[str], rows: Iterable[Row]) -> list[str]:
    """Report names that have no row of their own."""
    return sorted(set(wanted) - {row.subject for row in rows})


def proof_faults(rows: Iterable[Row], tests: Path = ROOT / "tests") -> list[str]:
    """Report tests that rows name and that do not exist."""
    named = sorted({test for row in rows for test in row.tests})
    texts: dict[str, str] = {}
    faults = []
    for test in named:
        file, _, name = test.partition("::")
        if file not in texts:
            path = tests / file
            texts[file] = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not re.search(rf"^ *(?:async )?def {name}\(", texts[file], re.MULTILINE):
            faults.append(f"there is no test {test}")
    return faults


def mention_faults(rows: Iterable[Row], everything: Iterable[str] = (), tests: Path = ROOT / "tests") -> list[str]:
    """Report subjects that none of the named test files mentions. Tests in `everything` call all methods."""
    showing: dict[str, set[str]] = {}
    for row in rows:
        showing.setdefault(row.subject, set()).update(row.tests)
    faults = []
    for subject, named in showing.items():
        texts = [(tests / file).read_text(encoding="utf-8") for file in {test.partition("::")[0] for test in named}]
        words = rf"\b(?:{subject}|{re.sub('(?<!^)(?=[A-Z])', '_', subject).lower()})\b"
        if texts and named.isdisjoint(everything) and not any(re.search(words, text) for text in texts):
            faults.append(f"no test of {subject} mentions it")
    return faults


def never_faults(rows: Iterable[Row], ours: Iterable[str]) -> list[str]:
    """Report codes that the page calls "never sent" although a door has them."""
    sent = set(ours)
    return [f"{row.subject} is sent by the door" for row in rows if row.ours == NEVER and row.subject in sent]


def google_codes() -> set[str]:
    """Return the codes that the Google door uses."""
    sources = (PACKAGE / "doors" / "google").rglob("*.py")
    return {code for path in sources for code in re.findall(r"\bCode\.([A-Z_]+)", path.read_text(encoding="utf-8"))}


def shape_faults(rows: Sequence[Row]) -> list[str]:
    """Report rows that are empty, duplicated, or impossible in a Markdown table."""
    counted = Counter((row.subject, row.case) for row in rows)
    return [
        f"{row.subject}: {row.case!r}"
        for row in rows
        if not (row.subject and row.cloud and row.emulator and row.ours)
        or any("|" in str(cell) for cell in row)
        or counted[row.subject, row.case] > 1
    ]
