"""`python -m penstock` is the command line."""

from __future__ import annotations

from penstock.cli import main

main()
