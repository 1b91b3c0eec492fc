"""Repeat the tests in random orders until the first failure: `python repeat.py 100`."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROCESSES = "2"


def main(times: int) -> int:
    chance, took = random.SystemRandom(), list[float]()
    for number in range(1, times + 1):
        seed, began = chance.randrange(1_000_000), time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-n", PROCESSES, "--seed", str(seed), "."]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
        took.append(time.monotonic() - began)
        if done.returncode:
            print(f"Run {number} of {times}, --seed {seed}, failed:\n{done.stdout}\n{done.stderr}")
            return 1
        print(f"{number}: {took[-1]:.1f} s, --seed {seed}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    print(f"{times} runs passed: {min(took):.1f} to {max(took):.1f} s each, {statistics.median(took):.1f} s mostly")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
