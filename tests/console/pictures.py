"""Pictures of the console, and the positions of the parts of its pages.

    python -m tests.console.pictures     writes docs/console.png and tests/console/layout.json

A picture of every page and dialog is kept (.artefacts/console) and compared with the one of the last run. The share of
pixels that changed is written beside them, for people who compare pictures. A test asserts the positions of the parts,
which do not depend on the numbers on a page, and little on the fonts of a machine (see `differences`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.server_process import ROOT

ARTEFACTS = ROOT / ".artefacts" / "console"
BEFORE = ARTEFACTS / "before"
CHANGES = ARTEFACTS / "changes.txt"
LAYOUT = Path(__file__).with_name("layout.json")
README_PICTURE = ROOT / "docs" / "console.png"
KEYWORD = b"Penstock-Page"  # key of the note in the picture that says which page it shows
NEAR = 3  # pixels

# Every part of a page that has a box of its own. Of repeated rows, only the first three.
PARTS = """() => {
  const kinds = ["header", "h1", "h2", ".tile", ".panel", ".chart", ".plot", ".box", ".scroll", "tbody tr", ".filters",
    ".messages", ".message", "dialog", ".field", ".buttons", ".toast"];
  const shown = (each) => each.offsetParent !== null || each.matches("dialog, header, .toast");
  return kinds.flatMap((kind) => [...document.querySelectorAll(kind)].filter(shown)
    .slice(0, kind === "tbody tr" || kind === ".message" ? 3 : 99).map((each) => {
      const { x, y, width, height } = each.getBoundingClientRect();
      const of_text = /^h[12]$|tr$/.test(kind) || each.closest("td");  // as wide as its text, or what stands beside it
      return [kind, Math.round(x), Math.round(y + scrollY), of_text ? 0 : Math.round(width), Math.round(height)];
    }));
}"""
_FONTS = """() => ["system-ui", "ui-monospace, monospace"].map((font) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `100px ${font}`;
  return Math.round(pen.measureText("Subscriptions, 0123456789").width);
})"""
_CHANGED = """async (both) => {
  const [a, b] = await Promise.all(both.map(async (text) => {
    const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${text}`)).blob());
    const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    pen.drawImage(picture, 0, 0);
    return pen.getImageData(0, 0, picture.width, picture.height);
  }));
  if (a.width !== b.width || a.height !== b.height) return 1;
  let changed = 0;
  const far = (at) => Math.abs(a.data[at] - b.data[at]) > 32;
  for (let at = 0; at < a.data.length; at += 4) if (far(at) || far(at + 1) || far(at + 2)) changed += 1;
  return changed / (a.data.length / 4);
}"""
_SAYS = """() => ["nav a", "h1", "h2", ".tile .label", ".flow-title", "thead th", ".chart strong", "button"]
  .map((kind) => [...document.querySelectorAll(kind)].map((each) => each.textContent.trim()))"""

# Wait until nothing has moved for a dozen frames.
_SETTLED = f"""async () => {{
  const look = () => JSON.stringify([({PARTS})(), document.querySelectorAll(".loading").length]);
  for (let before = "", same = 0, frame = 0; same < 12 && frame < 600; frame += 1) {{
    const now = look();
    same = now === before && now.endsWith(",0]") ? same + 1 : 0;
    before = now;
    await new Promise(requestAnimationFrame);
  }}
}}"""

Box = Sequence[Any]  # kind, x, y, width (0: the width of its text), height


def parts(page: Page) -> list[Box]:
    return list(page.evaluate(PARTS))


def settle(page: Page) -> None:
    page.evaluate(_SETTLED)


def fonts(page: Page) -> list[int]:
    return list(page.evaluate(_FONTS))


def keep(page: Page, name: str) -> Path:
    """Save a picture of the page as an artefact, and keep the picture of the last run beside it."""
    BEFORE.mkdir(parents=True, exist_ok=True)
    path = ARTEFACTS / f"{name}.png"
    if path.exists():
        path.replace(BEFORE / path.name)
    page.screenshot(path=path)
    return path


def note_changes(page: Page, names: Sequence[str], look: str) -> None:
    """Write the share of pixels of each picture that changed since the last run."""
    lines = []
    for name in names:
        before, now = BEFORE / f"{name}.png", ARTEFACTS / f"{name}.png"
        if not before.exists():
            lines.append(f"{name}: new")
            continue
        both = [base64.b64encode(path.read_bytes()).decode() for path in (before, now)]
        share = 0.0 if both[0] == both[1] else page.evaluate(_CHANGED, both)
        lines.append(f"{name}: {share:.2%}")
    CHANGES.with_name(f"changes-{look}.txt").write_text("\n".join(lines) + "\n")


def differences(known: Sequence[Box], found: Sequence[Box], *, same_lines: bool) -> list[str]:
    """Return how a layout differs from the stored one.

    If lines break at the same places, every box must be where it was, up to a few pixels. With other fonts, and on a
    phone, "3 min 12 s ago" may take one line more than "now". Then the parts must be the same, in the same columns and
    as wide.
    """
    kinds = [[box[0] for box in boxes] for boxes in (known, found)]
    if kinds[0] != kinds[1]:
        names = sorted({*kinds[0], *kinds[1]})
        counts = [(name, kinds[0].count(name), kinds[1].count(name)) for name in names]
        return [f"{now} of {name}, not {was}" for name, was, now in counts if was != now] or ["another order"]
    compared = (1, 2, 3, 4) if same_lines else (1, 3)
    return [
        f"{new[0]} is at {new[1:]}, was at {old[1:]}"
        for old, new in zip(known, found, strict=True)
        if any(abs(old[place] - new[place]) > NEAR for place in compared)
    ]


# ---------------------------------------------------------------------- the picture in the README


def fingerprint(page: Page) -> str:
    """Return the hash of the page's constant texts. If it changes, the picture is out of date."""
    return hashlib.sha256(json.dumps(page.evaluate(_SAYS)).encode()).hexdigest()


def with_note(png: bytes, text: str) -> bytes:
    """Return the picture with a text chunk after its header."""
    body = b"tEXt" + KEYWORD + b"\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:33] + chunk + png[33:]


def note_of(png: bytes) -> str:
    place = png.index(KEYWORD) + len(KEYWORD) + 1
    length = struct.unpack(">I", png[place - len(KEYWORD) - 9 : place - len(KEYWORD) - 5])[0]
    return png[place : place + length - len(KEYWORD) - 1].decode()


def main() -> None:
    test = [sys.executable, "-m", "pytest", "-q", "-m", "", str(Path(__file__).with_name("test_pictures.py"))]
    sys.exit(subprocess.run(test, env=os.environ | {"CONSOLE_PICTURES": "update"}, check=False).returncode)


if __name__ == "__main__":
    main()
