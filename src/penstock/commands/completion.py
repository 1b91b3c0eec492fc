"""`penstock completion`: shells complete commands, options, and the names that the server knows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.help import Group, summary
from penstock.errors import PenstockError

WAIT_SECONDS = 1.0  # for the server, while somebody waits for an answer to the tabulator key
NAMES_MAX = 200

BASH = """\
_penstock() {
    local line
    COMPREPLY=()
    while IFS=$'\\t' read -r line _; do
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

# What an argument or the value of an option is, by the word that stands for it.
LISTS = {"TOPIC": "topics", "SUB": "subscriptions", "QUEUE": "queues", "SNAPSHOT": "snapshots"}


def completion(
    ctx: typer.Context,
    shell: Annotated[str | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="For the scripts.", hidden=True)] = None,
    *,
    complete: Annotated[bool, typer.Option("--words", hidden=True, help="Complete the last of these words.")] = False,
) -> None:
    """Print the completion script of a shell.

    It completes commands, options, and the names of topics, subscriptions, queues and contexts.

      echo 'source <(penstock completion bash)' >> ~/.bashrc
      echo 'source <(penstock completion zsh)' >> ~/.zshrc
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    if complete:
        for word, text in completions(ctx.find_root().command, [shell or "", *(words or [])]):
            print(f"{word}\t{text}" if text else word)
        return
    if shell not in SCRIPTS:
        raise WrongUsageError(f"A shell is {', '.join(SCRIPTS)}" + (f", not {shell!r}" if shell else ""))
    sys.stdout.write(SCRIPTS[shell])


def completions(command: Any, words: list[str]) -> Iterator[tuple[str, str]]:
    """What the last word may become, each with a few words about it."""
    ctx = typer.Context(command, info_name="penstock", help_option_names=["-h", "--help"])
    *before, last = words or [""]
    arguments: list[str] = []
    option: Any = None
    for word in before:
        if option is not None:
            option = None
        elif word.startswith("-"):
            option = _valued_option(command, word)
        elif isinstance(command, Group) and (inner := command.get_command(ctx, word)) is not None:
            command, ctx = inner, typer.Context(inner, info_name=word, parent=ctx)
        else:
            arguments.append(word)
    found = _candidates(command, ctx, arguments, option, last)
    yield from ((word, text) for word, text in found if word.startswith(last))


def _candidates(command: Any, ctx: Any, arguments: list[str], option: Any, last: str) -> Iterator[tuple[str, str]]:
    if option is not None:
        yield from _names(option.metavar or "", option.name)
    elif last.startswith("-"):
        for each in command.get_params(ctx):
            if each.param_type_name == "option" and not each.hidden:
                yield from ((name, summary(each.help)) for name in each.opts)
    elif isinstance(command, Group):
        for _, rows in command.sections(ctx):
            yield from rows
    else:
        places = [each for each in command.params if each.param_type_name == "argument" and not each.hidden]
        if places:
            place = places[min(len(arguments), len(places) - 1)]
            yield from _names(place.metavar or "", place.name)


def _valued_option(command: Any, word: str) -> Any:
    """The option of which the next word is the value."""
    for each in command.params:
        if each.param_type_name == "option" and word in each.opts and not each.is_flag:
            return each
    return None


def _names(metavar: str, parameter: str) -> Iterator[tuple[str, str]]:
    if metavar == "SHELL":
        yield from ((each, "") for each in SCRIPTS)
    elif parameter == "context" or metavar == "CONTEXT":
        from penstock.commands.contexts import contexts_file, read_contexts

        with suppress(PenstockError):
            yield from ((name, each.address) for name, each in read_contexts(contexts_file(os.environ)).known.items())
    elif metavar in LISTS:
        with suppress(PenstockError):
            yield from _on_server(LISTS[metavar])


def _on_server(kind: str) -> Iterator[tuple[str, str]]:
    from penstock.admin.client import Client
    from penstock.commands.session import find_place

    place = find_place(os.environ)
    project = {"project": place.project} if place.project else {}
    with Client(place.address, place.token, timeout=WAIT_SECONDS) as client:
        default = place.project or client.get("/server")["default_project"]
        for each in islice(client.pages(f"/{kind}", kind, **project), NAMES_MAX):
            full = str(each["name"])
            yield (full.rpartition("/")[2] if full.startswith(f"projects/{default}/") else full), ""
