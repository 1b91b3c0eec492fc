"""The page docs/compatibility.md, written from the rows in this folder.

python -m tests.compatibility.page > docs/compatibility.md
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.compatibility import azure, azure_errors, pubsub, pubsub_errors, pubsub_messages
from tests.compatibility.rows import NEVER, NOT_PROVED, Row

HEAD = """\
# Compatibility

Each method and each error in the cloud, in the vendor's emulator, and here, with the test that
shows ours. `make docs` writes this page from `tests/compatibility/`. `make check` fails if a test
does not exist, or if a method or error of the vendors' lists, or one of ours, has no row.

- **Cloud**: from the vendors' documentation, Google's `.proto` files, recordings of Microsoft's
  SDKs and public reports. Nothing was run against the clouds.
- **Emulator**: Google's emulator 0.8.20 (gcloud 528, mid-2025), probed from outside. Azurite
  3.37.0, probed and read. *never*: not among its errors.
- **Ours**: shown by the test in the last column. *never sent* without a test is shown by the table
  of codes in the source.
- *same*: as the cloud. *not known*: no source was found.

More is in [google.md](doors/google.md), [azure.md](doors/azure.md) and, for the reaction of clients
to errors, [testing-faults.md](testing-faults.md).
"""

PUBSUB = {
    "Publisher": ("method", pubsub.PUBLISHER),
    "Subscriber": ("method", pubsub.SUBSCRIBER),
    "SchemaService": ("method", pubsub.SCHEMA_SERVICE),
    "IAMPolicy": ("method", pubsub.POLICIES),
    "Beside the methods": ("what", pubsub_messages.BESIDE),
    "Messages": ("what", pubsub_messages.MESSAGES),
    "Error codes": ("code", pubsub_errors.CODES),
    "Rules of requests": ("of what", pubsub_errors.RULES_OF_REQUESTS),
}
AZURE = {
    "Operations": ("operation", azure.OPERATIONS),
    "Messages and queues": ("what", azure.LIFE),
    "Credentials": ("what", azure.WHO),
    "Errors of requests": ("code", azure_errors.REQUESTS),
    "Errors of queues and messages": ("code", azure_errors.STATES),
    "Errors of credentials": ("code", azure_errors.REFUSALS),
    "Codes that are never sent": ("code", azure_errors.NOT_SENT),
    "Codes of the dialect": ("code", azure_errors.DIALECT_CODES),
}
NAMES = ("method", "operation", "code")  # tables whose rows are about a name of the vendor
EMULATORS = {"Google Pub/Sub": ("Google's emulator", PUBSUB), "Azure Queue Storage": ("Azurite", AZURE)}


def every_row() -> list[Row]:
    return [row for _, tables in EMULATORS.values() for _, rows in tables.values() for row in rows]


def compatibility_page() -> str:
    lines = [HEAD]
    for vendor, (emulator, tables) in EMULATORS.items():
        lines += [f"## {vendor}", ""]
        for title, (subject, rows) in tables.items():
            heading = f"| {subject} | | cloud | {emulator} | ours | test |"
            as_code = subject in NAMES
            lines += [
                f"### {title}",
                "",
                heading,
                "|---|---|---|---|---|---|",
                *(_line(row, as_code) for row in rows),
                "",
            ]
    return "\n".join([*lines, *_summary()]) + "\n"


def _line(row: Row, as_code: bool) -> str:
    named = [f"[`{name}`](../tests/{file})" for file, _, name in (test.partition("::") for test in row.tests)]
    proof = "<br>".join(named) or ("table of codes" if row.ours == NEVER else NOT_PROVED)
    subject = f"`{row.subject}`" if as_code else row.subject
    return "| " + " | ".join((subject, row.case, row.cloud, row.emulator, row.ours, proof)) + " |"


def _summary() -> Iterator[str]:
    rows = every_row()
    tests = {test for row in rows for test in row.tests}
    unproved = sum(not row.tests and row.ours != NEVER for row in rows)
    yield "## In numbers"
    yield ""
    yield f"{len(rows)} rows; {len(tests)} tests show them; {unproved} not proved."


if __name__ == "__main__":
    print(compatibility_page(), end="")
