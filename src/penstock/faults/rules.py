"""A rule: which calls it is about, which of them it hits, and what becomes of those. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from penstock import errors
from penstock.errors import InvalidArgumentError, PenstockError
from penstock.journal.port import JournalFullError

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
    "invalid_argument": errors.InvalidArgumentError,
    "not_found": errors.NotFoundError,
    "already_exists": errors.AlreadyExistsError,
    "permission_denied": errors.PermissionDeniedError,
    "resource_exhausted": errors.ResourceExhaustedError,
    "failed_precondition": errors.FailedPreconditionError,
    "unavailable": errors.UnavailableError,
    "damaged_store": errors.DamagedStoreError,
    "internal": errors.InternalError,
}

# Effects that only make sense for some verbs; the others are for all of them.
VERBS_OF: dict[str, frozenset[str]] = {
    "duplicate": frozenset({"pull", "push"}),
    "reorder": frozenset({"pull"}),
    "expire": frozenset({"pull", "push", "ack", "extend"}),
    "disk_full": frozenset({"publish"}),
}
# What clients of a door can ask for: a rule about anything else would wait for ever.
_MESSAGES, _RESOURCES = frozenset({"publish", "pull", "ack"}), frozenset({"create", "change", "delete"})
DOOR_VERBS: dict[str, frozenset[str]] = {
    "pubsub": _MESSAGES | _RESOURCES | {"push", "nack", "extend", "detach", "seek"},
    "azure": _MESSAGES | _RESOURCES | {"extend", "peek", "purge"},
    "text": _MESSAGES | {"nack", "create"},
    "flight": frozenset({"publish", "read", "create", "delete", "seek"}),
    "http": _MESSAGES | _RESOURCES | {"nack", "extend", "peek", "purge", "read", "seek"},
}
UNANSWERED: dict[str, str] = {
    "push": "a push has no caller who could miss the answer; its faults are error, latency, hold, duplicate and expire",
    "text nack": "the text protocol does not answer when a message is returned",
}
ADMIN = "http"  # a rule has to name this door to be about it: tests look at the server through it

Name = Annotated[str, msgspec.Meta(max_length=1024)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Without a word on door, verb, project or resource it is about every call; the admin API only if it is named."""

    effect: Annotated[Effect, msgspec.Meta(description="What becomes of a call that is hit.")]
    door: Annotated[Door | None, msgspec.Meta(description="Calls through this door.")] = None
    verb: Annotated[Verb | None, msgspec.Meta(description="Calls of this verb.")] = None
    project: Annotated[Name, msgspec.Meta(description="Calls about this project.")] = ""
    resource: Annotated[
        Name,
        msgspec.Meta(
            description="Calls about this topic or subscription, by its full or last name; a topic also "
            "stands for its subscriptions."
        ),
    ] = ""
    nth: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="Only the call of this number.")
    ] = None
    every: Annotated[Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="Each so-manieth call.")] = (
        None
    )
    probability: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None, msgspec.Meta(description="A call with this probability.")
    ] = None
    seed: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)] | None,
        msgspec.Meta(description="Of the probability; the same one hits the same calls."),
    ] = None
    times: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="At most so many hits; 0: no limit, which is the default but for expire: 1."),
    ] = None
    error: Annotated[Error | None, msgspec.Meta(description="For the effect error.")] = None
    code: Annotated[
        Name, msgspec.Meta(description="For the effect error: one of the codes of the door's protocol instead.")
    ] = ""
    message: Annotated[str, msgspec.Meta(max_length=500, description="For the effect error: its sentence.")] = ""
    retry_after_seconds: Annotated[
        Seconds | None, msgspec.Meta(description="For the effect error: what the client is told to wait.")
    ] = None
    seconds: Annotated[
        Seconds | None, msgspec.Meta(description="How late the answer is; of hold: at most so long.")
    ] = None


class Called(NamedTuple):
    """A call of a door."""

    door: str
    verb: str
    names: tuple[str, ...]  # what it is about, the nearest first
    messages: int = 0


def check(rule: Rule, codes: Mapping[str, Collection[str]]) -> None:
    """InvalidArgumentError where a rule contradicts itself or asks for what cannot be. `codes`: by door."""
    for wrong in (*_wrong_choice(rule), *_wrong_error(rule, codes), *_wrong_verb(rule)):
        raise InvalidArgumentError(wrong)


def _wrong_choice(rule: Rule) -> list[str]:
    wrong = []
    chosen = [name for name in ("nth", "every", "probability") if getattr(rule, name) is not None]
    if len(chosen) > 1:
        wrong.append(f"Give one of nth, every and probability, not {' and '.join(chosen)}")
    if rule.seed is not None and rule.probability is None:
        wrong.append("A seed belongs to a probability")
    if "/" in rule.project or " " in rule.project or not rule.project.isprintable():
        wrong.append("A project is a name without slashes and spaces")
    if rule.effect == "latency" and not rule.seconds:
        wrong.append("The effect latency needs seconds, more than 0")
    if rule.effect not in ("latency", "hold") and rule.seconds is not None:
        wrong.append(f"The effect {rule.effect} takes no seconds")
    if rule.effect == "expire" and rule.times == 0:
        wrong.append("The effect expire needs a limit in times: what comes back at once would be pulled for ever")
    return wrong


def _wrong_error(rule: Rule, codes: Mapping[str, Collection[str]]) -> list[str]:
    given = [name for name in ("error", "code", "message", "retry_after_seconds") if getattr(rule, name)]
    if rule.effect != "error":
        return [f"{given[0]} belongs to the effect error, not to {rule.effect}"] if given else []
    if (rule.error is None) == (not rule.code):
        return ["The effect error needs either error or code"]
    if rule.retry_after_seconds is not None and rule.door == "text":
        return ["The text protocol cannot say when to try again"]
    if not rule.code:
        return []
    if rule.door is None:
        return ["A code is one of a protocol: name the door"]
    known = codes.get(rule.door, ())
    if rule.code not in known:
        return [f"The {rule.door} door has no code {rule.code[:100]}" + (f"; it has {_listed(known)}" if known else "")]
    return []


def _wrong_verb(rule: Rule) -> list[str]:
    possible = VERBS_OF.get(rule.effect)
    verbs = DOOR_VERBS[rule.door] if rule.door is not None else ()
    if verbs and rule.verb is not None and rule.verb not in verbs:
        return [f"The {rule.door} door has no verb {rule.verb}; it has {_listed(verbs)}"]
    if verbs and possible is not None and possible.isdisjoint(verbs):
        return [f"The effect {rule.effect} is for {_listed(possible)}, which the {rule.door} door does not have"]
    if rule.verb is not None and possible is not None and rule.verb not in possible:
        return [f"The effect {rule.effect} is for {_listed(possible)}, not for {rule.verb}"]
    if rule.verb is not None and not _answered(rule.effect, rule.door, rule.verb):
        why = UNANSWERED["push" if rule.verb == "push" else "text nack"]
        return [f"The effect {rule.effect} cannot be here: {why}"]
    return []


def _answered(effect: str, door: str | None, verb: str) -> bool:
    """Whether there is an answer to spoil."""
    if verb == "push":
        return effect not in ("drop", "close")
    return not (door == "text" and verb == "nack" and effect in ("error", "drop", "close"))


def is_about(rule: Rule, called: Called) -> bool:
    if rule.door is None and called.door == ADMIN:
        return False
    if (rule.door or called.door) != called.door or (rule.verb or called.verb) != called.verb:
        return False
    if called.verb not in VERBS_OF.get(rule.effect, (called.verb,)):
        return False
    if not _answered(rule.effect, called.door, called.verb):
        return False
    if rule.project and all(project_of(name) != rule.project for name in called.names):
        return False
    return not rule.resource or any(rule.resource in (name, name.rpartition("/")[2]) for name in called.names)


def project_of(name: str) -> str:
    parts = name.split("/")
    return parts[1] if len(parts) == 4 and parts[0] == "projects" else ""


def limit_of(rule: Rule) -> int:
    """How often it hits at most; 0: no limit."""
    if rule.nth is not None:
        return 1
    return rule.times if rule.times is not None else int(rule.effect == "expire")


def error_of(rule: Rule, number: str) -> PenstockError:
    """The error that a call gets."""
    if rule.effect == "disk_full":
        return JournalFullError()
    kind = ERRORS[rule.error or "unavailable"]
    error = kind(rule.message or f"{rule.code or (kind.__doc__ or '').strip()} (fault {number})")
    error.retry_after_seconds = rule.retry_after_seconds
    error.protocol_code = rule.code
    return error


def _listed(words: Collection[Any]) -> str:
    return ", ".join(sorted(words))
