"""The filter language: matching, refusals and their sentences."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.broker.filters import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, compile_filter
from penstock.errors import InvalidArgumentError

ENGLISH = {"lang": "en", "name": "com.acme", "iana.org/language_tag": "en-GB"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("attributes:lang", True),
        ("attributes:missing", False),
        ('attributes:"iana.org/language_tag"', True),
        ('attributes.lang = "en"', True),
        ('attributes.lang="EN"', False),
        ('attributes."lang" != "fr"', True),
        ('attributes.missing != "en"', True),
        ('attributes.missing = ""', False),
        ('hasPrefix(attributes.name, "com")', True),
        ('hasPrefix ( attributes . name , "org" )', False),
        ('hasPrefix(attributes.missing, "")', False),
        ("NOT attributes:lang", False),
        ("-attributes:missing", True),
        ("NOT -attributes:lang", True),
        ("NOT(attributes:missing)", True),
        ("attributes:lang AND attributes:missing", False),
        ("attributes:lang OR attributes:missing", True),
        ("NOT attributes:missing AND attributes:lang", True),
        ("attributes:missing AND (attributes:lang OR attributes:name)", False),
        ("(attributes:missing AND attributes:lang) OR attributes:name", True),
        ("attributes:lang AND-attributes:missing", True),
        ('attributes.name = "com\\u002eacme"', True),
        ('attributes.name = "com\\x2eacme"', True),
        ('attributes.name = "com\\056acme"', True),
        ('attributes.name = "com\\U0000002eacme"', True),
    ],
)
def test_a_filter_matches_as_its_grammar_says(text: str, matches: bool) -> None:
    assert compile_filter(text)(ENGLISH) is matches


def test_keywords_are_ordinary_keys_after_the_dot_and_the_colon() -> None:
    assert compile_filter("attributes:AND AND attributes:NOT")({"AND": "", "NOT": ""})


def test_a_bare_key_may_hold_a_minus() -> None:
    assert compile_filter('attributes.x-y_1 = "v"')({"x-y_1": "v"})


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        (" ", 2, "expected attributes"),
        ("attributes", 11, "expected : or ."),
        ("attributes:", 12, "attribute key"),
        ("attributes.a", 13, "expected = or !="),
        ("attributes.iana.org = 'x'", 16, "expected = or !="),
        ("attributes.a = 'x'", 16, "string in double quotes"),
        ("attributes.a = x", 16, "string in double quotes"),
        ('attributes.a = "x', 16, "not closed"),
        ('attributes.a = "\\', 17, "unknown escape"),
        ('attributes.a = "\\q"', 17, "unknown escape"),
        ('attributes.a = "\\u12"', 17, "unknown escape"),
        ('attributes.a = "\\ud800"', 17, "not a character"),
        ('attributes.a = "\\400"', 17, "not a character"),
        ('attributes.a = "\\U00110000"', 17, "not a character"),
        ("attributes:a attributes:b", 14, "expected AND, OR"),
        ("attributes:a and attributes:b", 14, "expected AND, OR"),
        ("attributes:a AND attributes:b OR attributes:c", 31, "may not be mixed"),
        ("(attributes:a", 14, "expected )"),
        ("attributes:a)", 13, "expected AND, OR"),
        ("NOT", 4, "expected attributes"),
        ("NOTattributes:a", 1, "expected attributes"),
        ("Attributes:a", 1, "expected attributes"),
        ("data:a", 1, "expected attributes"),
        ('hasPrefix(attributes:a, "x")', 21, "expected ."),
        ('hasPrefix(attributes.a "x")', 24, "expected ,"),
        ("attributes:é", 12, "attribute key"),
    ],
)
def test_a_wrong_filter_is_refused_with_the_column(text: str, column: int, what: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        compile_filter(text)
    assert what in refusal.value.message
    assert refusal.value.message.endswith(f", at column {column}")


def test_the_length_counts_bytes_not_characters() -> None:
    longest = f'attributes.a = "{"é" * ((FILTER_BYTES_MAX - 17) // 2)}"'
    assert len(longest.encode()) in (FILTER_BYTES_MAX, FILTER_BYTES_MAX - 1)
    compile_filter(longest)
    with pytest.raises(InvalidArgumentError, match="at most 256"):
        compile_filter(longest.replace('"é', '"éé'))


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("-", ""), ("NOT ", "")])
def test_the_depth_is_capped(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return opening * depth + "attributes:a" + closing * depth

    compile_filter(nested(FILTER_DEPTH_MAX))
    with pytest.raises(InvalidArgumentError, match="deep, at column"):
        compile_filter(nested(FILTER_DEPTH_MAX + 1))


# A second, slower implementation of the language: expressions as trees, written out in a random spelling.


@dataclass(frozen=True)
class Tree:
    kind: str  # has, eq, ne, prefix, not, AND, OR
    key: str = ""
    value: str = ""
    parts: tuple[Tree, ...] = ()

    def holds(self, attributes: dict[str, str]) -> bool:
        actual = attributes.get(self.key)
        truths = [part.holds(attributes) for part in self.parts]
        return {
            "has": actual is not None,
            "eq": actual is not None and actual == self.value,
            "ne": actual is None or actual != self.value,
            "prefix": actual is not None and actual[: len(self.value)] == self.value,
            "not": truths == [False],
            "AND": all(truths),
            "OR": any(truths),
        }[self.kind]


KEYS = st.sampled_from(["a", "b-c", "NOT", "x y", "é", '"', ""])
VALUES = st.sampled_from(["", "v", "vw", 'q"\\', "\n\t", "é€", "😀"])
LEAVES = st.one_of(
    st.builds(Tree, st.just("has"), KEYS),
    st.builds(Tree, st.sampled_from(["eq", "ne", "prefix"]), KEYS, VALUES),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda part: Tree("not", parts=(part,)), inner),
        st.builds(
            lambda kind, parts: Tree(kind, parts=tuple(parts)),
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
    ),
    max_leaves=6,
)


def spell(draw: st.DrawFn, tree: Tree) -> str:
    gap = draw(st.sampled_from(["", " ", "\t "]))
    if tree.kind in ("AND", "OR"):
        return f" {tree.kind} ".join(spell_part(draw, part) for part in tree.parts)
    if tree.kind == "not":
        return draw(st.sampled_from(["-", "NOT ", "- "])) + spell_part(draw, tree.parts[0])
    if tree.kind == "has":
        return f"attributes{gap}:{gap}{spell_key(draw, tree.key)}"
    if tree.kind == "prefix":
        return f"hasPrefix{gap}(attributes.{spell_key(draw, tree.key)},{gap}{spell_string(draw, tree.value)})"
    sign = "=" if tree.kind == "eq" else "!="
    return f"attributes.{spell_key(draw, tree.key)}{gap}{sign}{gap}{spell_string(draw, tree.value)}"


def spell_part(draw: st.DrawFn, tree: Tree) -> str:
    text = spell(draw, tree)
    return f"({text})" if tree.kind in ("AND", "OR") or draw(st.booleans()) else text


def spell_key(draw: st.DrawFn, key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare and draw(st.booleans()) else spell_string(draw, key)


def spell_string(draw: st.DrawFn, value: str) -> str:
    return '"' + "".join(draw(st.sampled_from(spellings(character))) for character in value) + '"'


def spellings(character: str) -> list[str]:
    code = ord(character)
    escaped = [f"\\U{code:08x}"]
    escaped += [f"\\u{code:04X}"] if code < 0x10000 else []
    escaped += [f"\\x{code:02x}", f"\\{code:03o}"] if code < 0x100 else []
    return escaped + ([f"\\{character}"] if character in '"\\' else [character])


@st.composite
def spelled_trees(draw: st.DrawFn) -> tuple[Tree, str]:
    tree = draw(TREES)
    return tree, spell(draw, tree)


@given(spelled_trees(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_spelling_of_an_expression_means_the_expression(
    spelled: tuple[Tree, str], attributes: dict[str, str]
) -> None:
    tree, text = spelled
    assume(len(text.encode()) <= FILTER_BYTES_MAX)
    assert compile_filter(text)(attributes) is tree.holds(attributes)


WORDS = ["attributes", "hasPrefix", "AND", "OR", "NOT", "a", "é", "\ud800"]
FRAGMENTS = st.sampled_from([*WORDS, *'-():.,="\\ ', "!=", "\\u"])


@given(st.one_of(st.text(), st.lists(FRAGMENTS).map("".join)), st.dictionaries(KEYS, VALUES, max_size=2))
@example("\ud800", {})
@example("(" * 256, {})
@example("-" * 256, {})
def test_any_text_is_a_filter_or_an_invalid_argument(text: str, attributes: dict[str, str]) -> None:
    try:
        predicate = compile_filter(text)
    except InvalidArgumentError:
        return
    assert predicate(attributes) in (True, False)
