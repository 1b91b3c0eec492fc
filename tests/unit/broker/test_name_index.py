"""The sorted names of a mapping, compared with sorting them each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker import name_index
from penstock.broker.name_index import NameIndex

NAMES = st.text("ab/\U0010ffff", max_size=4)
CHANGES = st.lists(st.tuples(st.booleans(), NAMES), max_size=30)


@given(
    st.lists(CHANGES, max_size=4), NAMES, st.none() | NAMES, st.integers(0, 5), st.booleans(), st.sampled_from([2, 99])
)
def test_an_index_has_the_names_of_its_mapping_in_order(
    rounds: list[list[tuple[bool, str]]], prefix: str, after: str | None, most: int, descending: bool, kept: int
) -> None:
    usual, name_index.CHANGES_MAX = name_index.CHANGES_MAX, kept
    try:
        names = dict[str, None]()
        index = NameIndex(names)
        for changes in rounds:
            for comes, name in changes:
                if comes:
                    names[name] = None
                else:
                    names.pop(name, None)
                index.note(name)
            expected = [
                name
                for name in sorted(names, reverse=descending)
                if name.startswith(prefix) and (after is None or (name < after if descending else name > after))
            ]
            found = index.names(prefix, after, most, descending=descending)
            assert found == expected[: most or None]
            assert index.count(prefix) == sum(name.startswith(prefix) for name in names)
    finally:
        name_index.CHANGES_MAX = usual
