"""A fault rule: the calls that it matches, which of them it hits, and the effect. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from penstock import errors
from penstock.errors import InvalidArgumentError, PenstockError
from penstock.journal.port import JournalFullError
from penstock.names import project_of

Door = Literal["pubsub", "azure", "text", "flight", "http"]
Verb = Literal[
    "publish",
    "pull",
    "push",
    "ack",
    "nack",
    "extend",
    "peek",
    "purge",
    "read",
    "create",
    "change",
    "delete",
    "detach",
    "seek",
]
Effect = Literal["error", "latency", "drop", "close", "hold", "duplicate", "reorder", "expire", "disk_full"]
Error = Literal[
    "invalid_argument",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "unavailable",
    "damaged_store",
    "internal",
]

ERRORS: dict[str, type[PenstockError]] = {
    name: getattr(errors, f"{name.title().replace('_', '')}Error") for name in get_args(Error)
}

# The verbs of effects that only some verbs can have.
VERBS_OF: dict[str, frozenset[str]] = {
    "duplicate": frozenset({"pull", "push"}),
    "reorder": frozenset({"pull"}),
    "expire": frozenset({"pull", "push", "ack", "extend"}),
    "disk_full": frozenset({"publish"}),
}
# The verbs of each door. A rule for another verb would never hit a call.
_MESSAGES, _RESOURCES = frozenset({"publish", "pull", "ack"}), frozenset({"create", "change", "delete"})
DOOR_VERBS: dict[str, frozenset[str]] = {
    "pubsub": _MESSAGES | _RESOURCES | {"push", "nack", "extend", "detach", "seek"},
    "azure": _MESSAGES | _RESOURCES | {"extend", "peek", "purge"},
    "text": _MESSAGES | {"nack", "create"},
    "flight": frozenset({"publish", "read", "create", "delete", "seek"}),
    "http": _MESSAGES | _RESOURCES | {"nack", "extend", "peek", "purge", "read", "seek"},
}
UNANSWERED: dict[str, str] = {
    "push": "a push has no caller that waits for an answer; its effects are error, latency, hold, duplicate and expire",
    "text nack": "the text protocol does not answer when a message is returned",
}
ADMIN = "http"  # only matched by rules that name it, because tests use it to look at the server

Name = Annotated[str, msgspec.Meta(max_length=1024)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fault rule. Without door, verb, project and resource it matches all calls except those of the admin API."""

    effect: Annotated[Effect, msgspec.Meta(description="What happens to a call that is hit.")]
    door: Annotated[Door | None, msgspec.Meta(description="Match calls of this protocol.")] = None
    verb: Annotated[Verb | None, msgspec.Meta(description="Match calls of this verb.")] = None
    project: Annotated[Name, msgspec.Meta(description="Match calls for this project.")] = ""
    resource: Annotated[
        Name,
        msgspec.Meta(
            description="Match calls for this topic or subscription, by its full or short name. A topic also "
            "matches its subscriptions."
        ),
    ] = ""
    nth: Annotated[Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="Hit only the Nth call.")] = None
    every: Annotated[Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="Hit every Nth call.")] = None
    probability: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None,
        msgspec.Meta(description="Hit calls with this probability."),
    ] = None
    seed: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)] | None,
        msgspec.Meta(description="Seed of the probability. The same seed hits the same calls."),
    ] = None
    times: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="Maximum number of hits. 0 means no limit. Default 0, for expire 1."),
    ] = None
    error: Annotated[Error | None, msgspec.Meta(description="Effect error: the error, in Penstock's words.")] = None
    code: Annotated[
        Name, msgspec.Meta(description="Effect error: an error code of the protocol, instead of error.")
    ] = ""
    message: Annotated[str, msgspec.Meta(max_length=500, description="Effect error: the message.")] = ""
    retry_after_seconds: Annotated[
        Seconds | None, msgspec.Meta(description="Effect error: seconds that the client is told to wait.")
    ] = None
    seconds: Annotated[
        Seconds | None, msgspec.Meta(description="Effect latency: delay of the answer. Effect hold: maximum wait.")
    ] = None


class Called(NamedTuple):
    """A call to a door."""

    door: str
    verb: str
    names: tuple[str, ...]  # resources of the call, the closest first
    messages: int = 0


def check(rule: Rule, codes: Mapping[str, Collection[str]]) -> None:
    """Raise InvalidArgumentError if a rule is invalid. `codes` are the error codes by door."""
    for wrong in (*_wrong_choice(rule), *_wrong_error(rule, codes), *_wrong_verb(rule)):
        raise InvalidArgumentError(wrong)


def _wrong_choice(rule: Rule) -> list[str]:
    wrong = []
    chosen = [name for name in ("nth", "every", "probability") if getattr(rule, name) is not None]
    if len(chosen) > 1:
        wrong.append(f"Set only one of nth, every and probability, not {' and '.join(chosen)}")
    if rule.seed is not None and rule.probability is None:
        wrong.append("A seed needs a probability")
    if "/" in rule.project or " " in rule.project or not rule.project.isprintable():
        wrong.append("A project is a name without slashes and spaces")
    if rule.effect == "latency" and not rule.seconds:
        wrong.append("The effect latency needs seconds, more than 0")
    if rule.effect not in ("latency", "hold") and rule.seconds is not None:
        wrong.append(f"The effect {rule.effect} takes no seconds")
    if rule.effect == "expire" and rule.times == 0:
        wrong.append("The effect expire needs times above 0: otherwise the same messages would be pulled for ever")
    return wrong


def _wrong_error(rule: Rule, codes: Mapping[str, Collection[str]]) -> list[str]:
    given = [name for name in ("error", "code", "message", "retry_after_seconds") if getattr(rule, name)]
    if rule.effect != "error":
        return [f"{given[0]} belongs to the effect error, not to {rule.effect}"] if given else []
    if (rule.error is None) == (not rule.code):
        return ["The effect error needs either error or code"]
    if rule.retry_after_seconds is not None and rule.door == "text":
        return ["retry_after_seconds is not possible with the text protocol"]
    if not rule.code:
        return []
    if rule.door is None:
        return ["A code needs a protocol (door), because each protocol has its own codes"]
    valid = codes.get(rule.door, ())
    if rule.code not in valid:
        return [f"{rule.door} has no code {rule.code[:100]}" + (f"; its codes are {_join(valid)}" if valid else "")]
    return []


def _wrong_verb(rule: Rule) -> list[str]:
    possible = VERBS_OF.get(rule.effect)
    verbs = DOOR_VERBS[rule.door] if rule.door is not None else ()
    if verbs and rule.verb is not None and rule.verb not in verbs:
        return [f"{rule.door} has no verb {rule.verb}; its verbs are {_join(verbs)}"]
    if verbs and possible is not None and possible.isdisjoint(verbs):
        return [f"The effect {rule.effect} is for {_join(possible)}, which {rule.door} does not have"]
    if rule.verb is not None and possible is not None and rule.verb not in possible:
        return [f"The effect {rule.effect} is for {_join(possible)}, not for {rule.verb}"]
    if rule.verb is not None and not _has_answer(rule.effect, rule.door, rule.verb):
        why = UNANSWERED["push" if rule.verb == "push" else "text nack"]
        return [f"The effect {rule.effect} is not possible here: {why}"]
    return []


def _has_answer(effect: str, door: str | None, verb: str) -> bool:
    """Return whether the call has an answer that the effect needs."""
    if verb == "push":
        return effect not in ("drop", "close")
    return not (door == "text" and verb == "nack" and effect in ("error", "drop", "close"))


def matches(rule: Rule, called: Called) -> bool:
    if rule.door is None and called.door == ADMIN:
        return False
    if (rule.door or called.door) != called.door or (rule.verb or called.verb) != called.verb:
        return False
    if called.verb not in VERBS_OF.get(rule.effect, (called.verb,)):
        return False
    if not _has_answer(rule.effect, called.door, called.verb):
        return False
    if rule.project and all(project_of(name) != rule.project for name in called.names):
        return False
    return not rule.resource or any(rule.resource in (name, name.rpartition("/")[2]) for name in called.names)


def limit_of(rule: Rule) -> int:
    """Return the maximum number of hits. 0 means no limit."""
    if rule.nth is not None:
        return 1
    return rule.times if rule.times is not None else int(rule.effect == "expire")


def error_of(rule: Rule, number: str) -> PenstockError:
    """Return the error for a call that is hit."""
    if rule.effect == "disk_full":
        return JournalFullError()
    kind = ERRORS[rule.error or "unavailable"]
    error = kind(rule.message or f"{rule.code or (kind.__doc__ or '').strip()} (fault {number})")
    error.retry_after_seconds = rule.retry_after_seconds
    error.protocol_code = rule.code
    return error


def _join(words: Collection[Any]) -> str:
    return ", ".join(sorted(words))
