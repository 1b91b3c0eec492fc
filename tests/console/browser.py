"""The Chromium of the console's tests, which is found or installed.

    python -m tests.console.browser     prints its path, installs it if needed, or prints instructions

The choices are, in this order: an installed Chromium or Chrome, the browser that Playwright keeps, Playwright's own
download, and Debian's package where this runs as root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--no-sandbox",  # needed if the tests run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HELP = (
    "The tests of the console need a Chromium: install one (on Debian: apt install chromium), or name one in CHROMIUM."
)


def find() -> str | None:
    """Return the path of a browser on this machine."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        kept = playwright.chromium.executable_path
    return kept if Path(kept).exists() else None


def get() -> str | None:
    """Return the path of a browser, and install one if there is none."""
    found = find()
    if found is not None:
        return found
    ways = [[sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        ways += [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]]
    for way in ways:
        subprocess.run(way, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        found = find()
        if found is not None:
            return found
    return None


if __name__ == "__main__":
    browser = get()
    print(browser or HELP)
    sys.exit(0 if browser else 1)
