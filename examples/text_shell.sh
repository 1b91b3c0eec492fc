#!/bin/sh
# A queue for shell scripts: one command sends lines, the other processes them. Start `penstock serve` first.
set -eu

printf 'alpha\nbeta\ngamma\n' | penstock text send letters --lines --quiet

penstock text consume letters --count 3 | while read -r letter; do
    echo "got $letter"
done
