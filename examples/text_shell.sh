#!/bin/sh
# The broker for shell scripts: one side sends lines, the other works them off. Needs `penstock serve` in another window.
set -eu

printf 'alpha\nbeta\ngamma\n' | penstock text send letters --lines --quiet

penstock text consume letters --count 3 | while read -r letter; do
    echo "got $letter"
done
