"""`python -m tests.alone [FILE ...]`: run every test file in a pytest of its own.

A test that needs what another file has set up fails here. The command prints the failing files and their output, and
exits with 1 if there are any.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2
NO_TESTS = 5  # exit code of pytest: every test of the file is a nightly one


def run_alone(file: Path) -> tuple[Path, int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file.relative_to(ROOT))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return file, done.returncode, done.stdout + done.stderr


def main() -> int:
    files = [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "tests").rglob("test_*.py"))
    failed = []
    with ThreadPoolExecutor(WORKERS) as workers:
        for file, code, output in workers.map(run_alone, files):
            if code not in (0, NO_TESTS):
                failed.append(file)
                print(f"== {file.relative_to(ROOT)} fails alone\n{output}", flush=True)
    print(f"{len(files) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
