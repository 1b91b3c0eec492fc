"""`penstock completion`: scripts for shells, and the words that complete a command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import Group, command, summary
from penstock.commands.parameters import argument
from penstock.errors import PenstockError
from penstock.terminal import safe_text

WAIT_SECONDS = 1.0  # for the server, after the Tab key
NAMES_MAX = 200

BASH = """\
_penstock() {
    local line
    COMPREPLY=()
    while IFS=$'\\t' read -r line _; do
        printf -v line %q "$line"
        COMPREPLY+=("$line")
    done < <(penstock completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [ ${#COMPREPLY[@]} -eq 0 ] && compopt -o default
}
complete -F _penstock penstock
"""
ZSH = """\
#compdef penstock
_penstock() {
    local line
    local -a found
    while IFS=$'\\t' read -r word text; do
        found+=("${word//:/\\\\:}:$text")
    done < <(penstock completion --words -- "${(@)words[2,$CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then _describe penstock found; else _files; fi
}
compdef _penstock penstock
"""
FISH = """\
function __penstock
    set -l words (commandline -opc) (commandline -ct)
    penstock completion --words -- $words[2..-1] 2>/dev/null
end
complete -c penstock -a '(__penstock)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

# The metavar of a parameter: the list of the admin API with its values.
LISTS = {"TOPIC": "topics", "SUBSCRIPTION": "subscriptions", "QUEUE": "queues", "SNAPSHOT": "snapshots"}


@command()
@argument("shell", metavar="SHELL", required=False, help="bash, zsh or fish.")
@argument("words", metavar="WORD", nargs=-1, hidden=True, help="Used by the scripts.")
@click.option("complete", "--words", is_flag=True, hidden=True, help="Complete the last of these words.")
def completion(shell: str | None, words: tuple[str, ...], *, complete: bool) -> None:
    """Print the completion script of a shell.

    The script completes commands, options, and the names of topics, subscriptions, queues and contexts.

      echo 'source <(penstock completion bash)' >> ~/.bashrc
      echo 'source <(penstock completion zsh)' >> ~/.zshrc
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    if complete:
        for word, text in completions(click.get_current_context().find_root().command, [shell or "", *words]):
            print(f"{word}\t{text}" if text else word)
        return
    if shell not in SCRIPTS:
        raise WrongUsageError(f"SHELL must be {', '.join(SCRIPTS)}" + (f", not {shell!r}" if shell else ""))
    sys.stdout.write(SCRIPTS[shell])


def completions(command: Any, words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield completions of the last word, each with a short description."""
    ctx = click.Context(command, info_name="penstock", help_option_names=["-h", "--help"])
    *before, last = words or [""]
    arguments: list[str] = []
    option: Any = None
    for word in before:
        if option is not None:
            option = None
        elif word.startswith("-"):
            option = _valued_option(command, word)
        elif isinstance(command, Group) and (inner := command.get_command(ctx, word)) is not None:
            command, ctx = inner, click.Context(inner, info_name=word, parent=ctx)
        else:
            arguments.append(word)
    candidates = _candidates(command, ctx, arguments, option, last)
    yield from ((word, text) for word, text in candidates if word.startswith(last))


def _candidates(command: Any, ctx: Any, arguments: list[str], option: Any, last: str) -> Iterator[tuple[str, str]]:
    if option is not None:
        yield from _names(option.metavar or "", option.name)
    elif last.startswith("-"):
        for parameter in command.get_params(ctx):
            if parameter.param_type_name == "option" and not parameter.hidden:
                yield from ((name, summary(parameter.help)) for name in parameter.opts)
    elif isinstance(command, Group):
        for _, rows in command.sections(ctx):
            yield from rows
    else:
        places = [
            parameter
            for parameter in command.params
            if parameter.param_type_name == "argument" and not parameter.hidden
        ]
        if places:
            parameter = places[min(len(arguments), len(places) - 1)]
            yield from _names(parameter.metavar or "", parameter.name)


def _valued_option(command: Any, word: str) -> Any:
    """Return the option whose value is the next word, or None."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and word in parameter.opts and not parameter.is_flag:
            return parameter
    return None


def _names(metavar: str, parameter: str) -> Iterator[tuple[str, str]]:
    if metavar == "SHELL":
        yield from ((shell, "") for shell in SCRIPTS)
    elif parameter == "context" or metavar == "CONTEXT":
        from penstock.commands.contexts import contexts_file, read_contexts

        with suppress(PenstockError):
            yield from (
                (name, context.address) for name, context in read_contexts(contexts_file(os.environ)).by_name.items()
            )
    elif metavar in LISTS:
        with suppress(PenstockError):
            yield from _on_server(LISTS[metavar])


def _on_server(kind: str) -> Iterator[tuple[str, str]]:
    from penstock.admin.client import Client
    from penstock.commands.session import find_place

    server = find_place(os.environ)
    project = {"project": server.project} if server.project else {}
    with Client(server.address, server.token, timeout=WAIT_SECONDS) as client:
        default = server.project or client.get("/server")["default_project"]
        for resource in islice(client.pages(f"/{kind}", kind, **project), NAMES_MAX):
            full = str(resource["name"])
            if safe_text(full) != full:
                continue  # the name has control characters, or looks like another name
            yield (full.rpartition("/")[2] if full.startswith(f"projects/{default}/") else full), ""
