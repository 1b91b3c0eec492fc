"""Whether the rows of docs/compatibility.md are whole: every name in a vendor's list, every one of ours, every test.

The vendors' lists are those in their Python clients, read as text: nothing of them is imported.
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
    """Every method of the services that Google's client speaks."""
    files = [
        f"google/pubsub_v1/services/{service}/transports/grpc.py"
        for service in ("publisher", "subscriber", "schema_service")
    ]
    return {name for file in files for name in METHOD.findall(_text_of("google-cloud-pubsub", file))}


def azure_operations() -> set[str]:
    file = "azure/storage/queue/_generated/operations/_operations.py"
    return set(BUILDER.findall(_text_of("azure-storage-queue", file)))


def azure_codes() -> set[str]:
    """The codes of queues, and those of every storage service."""
    text = _text_of("azure-storage-queue", "azure/storage/queue/_shared/models.py")
    return {code for _, lines in VENDOR_CODES.findall(text) for code in re.findall(r'"(\w+)"', lines)}


def _text_of(package: str, file: str) -> str:
    return Path(str(distribution(package).locate_file(file))).read_text(encoding="utf-8")


def missing(wanted: Iterable[str], rows: Iterable[Row]) -> list[str]:
    """What has no row of its own."""
    return sorted(set(wanted) - {row.subject for row in rows})


def proof_faults(rows: Iterable[Row], tests: Path = ROOT / "tests") -> list[str]:
    """Tests that rows name and that are not there."""
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
    """Subjects that are mentioned in no file of the tests which show them; `everything` are tests that call all."""
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
    """Codes that are said never to be sent, by a door that has them."""
    sent = set(ours)
    return [f"{row.subject} is sent by the door" for row in rows if row.ours == NEVER and row.subject in sent]


def google_codes() -> set[str]:
    """The codes that the Google door sends somewhere."""
    sources = (PACKAGE / "doors" / "google").rglob("*.py")
    return {code for path in sources for code in re.findall(r"\bCode\.([A-Z_]+)", path.read_text(encoding="utf-8"))}


def shape_faults(rows: Sequence[Row]) -> list[str]:
    """Rows of a table that say nothing, that the page cannot hold, or that are there twice."""
    counted = Counter((row.subject, row.case) for row in rows)
    return [
        f"{row.subject}: {row.case!r}"
        for row in rows
        if not (row.subject and row.cloud and row.emulator and row.ours)
        or any("|" in str(cell) for cell in row)
        or counted[row.subject, row.case] > 1
    ]
