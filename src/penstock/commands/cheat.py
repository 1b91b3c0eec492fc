"""`penstock cheat`: examples of common commands."""

from __future__ import annotations

from penstock.commands.help import command
from penstock.commands.output import Output
from penstock.commands.parameters import argument

SHEETS = {
    "start": """
# run a server that stores data in this folder, or only in memory
penstock serve
penstock serve --memory

# create topics, subscriptions and messages at the start, and write such a file
penstock serve --seed shop.toml
penstock seed --from-server shop.toml

# wait until the server is ready
penstock health --wait 30

# name another server
penstock context add staging broker.example:8090 --token - --use
""",
    "publish": """
penstock publish orders 'hello' -H kind=greeting
penstock publish orders '{"n": {n}, "id": "{uuid}", "at": "{now}"}' --count 1000 --rate 100
seq 1000 | penstock publish orders -
printf 'k1:a\\nk2:b\\n' | penstock publish orders - -K :
penstock publish photos --file cat.jpg
penstock publish orders 'later' --delay 10m
""",
    "look": """
# list queues and topics, with their names in every protocol
penstock ls
penstock topics ls --sort -rate

# the last ten; five from an offset; the last ten minutes; new messages; a time range
penstock peek orders
penstock peek orders -o 100 -n 5
penstock peek orders -o @-10m
penstock tail -f orders
penstock tail orders -o s@2026-11-15T10:00Z -o e@2026-11-15T11:00Z

# as JSON, or in a format of your own
penstock tail orders --json | jq .attributes
penstock peek orders -f '%T %o %k %h %s\\n'

# search
penstock search orders 4711
penstock search orders --filter 'attributes.kind = "paid"'
penstock search orders --where '$.customer.id=17'
""",
    "consume": """
penstock subs create billing orders --ack-deadline 30s --dead-letter-topic orders-dead --max-attempts 5
penstock pull billing -n 10 --ack
penstock pull billing -n 0 --wait 60s --ack --format '%s\\n' | while read -r line; do echo "$line"; done
penstock subs leases billing
""",
    "behind": """
# backlogs, largest first; live statistics; an alarm
penstock lag
penstock top
penstock health --max-backlog 1000 --max-age 5m
""",
    "again": """
# count the messages that would be delivered again, then seek
penstock seek billing @-10m --dry-run
penstock seek billing @-10m

# save a position before a risky change, and go back to it
penstock snapshots create before-deploy billing
penstock seek billing snapshot:before-deploy

# drop the backlog
penstock purge billing --dry-run
penstock seek billing end
""",
    "dead-letters": """
# show dead letters, try a redrive, run it at a limited rate
penstock peek orders-dead
penstock redrive orders-dead-sub --dry-run
penstock redrive orders-dead-sub --filter 'attributes.kind = "paid"' --rate 50
penstock redrive orders-dead-sub --id 1234567
penstock moves ls
""",
    "files": """
penstock export orders orders.jsonl
penstock export orders orders.parquet -o @-1d
penstock import orders orders.jsonl
penstock export orders - | gzip > orders.jsonl.gz
gunzip -c orders.jsonl.gz | penstock import copy-of-orders -
""",
    "scripts": """
# fields with tabs in a pipe, JSON with -J, exit codes
penstock lag | awk -F'\\t' '$3 > 1000 {print $1}'
penstock topics ls -J | jq -r .name
penstock topics show orders >/dev/null; [ $? -ne 3 ] || penstock topics create orders
""",
    "shell": """
source <(penstock completion bash)
""",
}


@command()
@argument("topic", metavar="SECTION", required=False, help="Section to show. Default: all.")
def cheat(topic: str | None) -> None:
    """Show examples of common commands.

    Sections: start, publish, look, consume, behind, again, dead-letters, files, scripts, shell.
    """
    from penstock.errors import NotFoundError

    if topic is not None and topic not in SHEETS:
        raise NotFoundError(f"Unknown section: {topic}. Sections: {', '.join(SHEETS)}")
    output = Output()
    for name in [topic] if topic else SHEETS:
        print(output.style(f"## {name}", "bold"))
        for line in SHEETS[name].strip().splitlines():
            print(output.style(line, "dim") if line.startswith("#") else line)
        print()
