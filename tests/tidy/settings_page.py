"""The page docs/settings.md, written from the fields of the settings.

python -m tests.tidy.settings_page > docs/settings.md
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.settings import DOORS, FILE, SETTINGS, Setting

HEAD = """\
# Settings

A flag overrides an environment variable, a variable overrides a TOML file (`--config FILE` or
`PENSTOCK_CONFIG`), and the file overrides the default. The variable of a setting is `PENSTOCK_` and
its name in capitals: `PENSTOCK_AZURE_PORT`. An invalid value is refused with one sentence that
names the setting as it was written. Secrets are never printed.

In the file a setting is a key at the top (`azure_port = 0`) or a key in the table of its protocol,
without the name of the protocol:

```toml
retention_seconds = 3600

[azure]
port = 0
poison_after = 5
```

A port is a number, 0 for any free port, or `off` for a closed port. The flag of a list can be
repeated, and its variable contains the values with commas between them. A switch is `true` or
`false` in a variable, and a flag without a value on the command line.

Other users of a machine can see the flags of a process. Give tokens and keys in a variable, in the
settings file, or in a file of their own whose path is in a variable that ends in `_FILE`:
`PENSTOCK_HTTP_TOKENS_FILE=/run/secrets/tokens`, with one token per line. Every setting with secrets
has such a variable.

This page is written from the fields in `src/penstock/settings.py` and
`src/penstock/doors/*/options.py` by `make docs`.
"""
PAGES = {"pubsub": "google", "azure": "azure", "text": "text", "flight": "flight", "http": ""}


def settings_page() -> str:
    return "\n".join([HEAD, *_section("", "## The server"), *(line for door in DOORS for line in _door(door))])


def _door(door: str) -> Iterator[str]:
    page = f" ([documentation](doors/{PAGES[door]}.md))" if PAGES[door] else ""
    yield from _section(door, f"## `[{door}]`{page}")


def _section(section: str, title: str) -> Iterator[str]:
    yield from (title, "", "| setting | flag | default | |", "|---|---|---|---|")
    yield from (_row(each) for each in SETTINGS.values() if each.section == section)
    yield ""


def _row(each: Setting) -> str:
    value = "" if isinstance(each.default, bool) else f" {each.kind.metavar}"
    flag = f"`{each.flag}{value}`".replace("|", "\\|")
    default = "" if each.many or not each.shown else f"`{each.shown}`"
    file = f" In a file: `{each.variable}{FILE}`." if each.secret else ""
    return f"| `{each.name}` | {flag} | {default} | {each.sentences}{file} |"


if __name__ == "__main__":
    print(settings_page(), end="")
