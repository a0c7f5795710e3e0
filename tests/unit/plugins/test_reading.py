"""Reading what a provider's program says: whatever it says, nothing is raised and everything has a bound."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.approvals import CUT
from jamcore.domain.providers import ProviderProtocolError
from jamcore.plugins.questions import labelled
from jamcore.plugins.reading import (
    EVENT_TEXT,
    IDENTIFIER,
    SHOWN_TEXT,
    as_json,
    entries,
    identifier,
    member,
    number,
    reported_identity,
    shown,
    text,
    whole,
)

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=400)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4))


@given(JSON, st.lists(st.text(max_size=8), max_size=3), st.integers(0, 300))
def test_no_json_is_too_odd(value: object, path: list[str], limit: int) -> None:
    """Each reader takes anything, and keeps no more than it says."""
    for found in (value, member(value, *path)):
        assert len(text(found, limit)) <= limit
        assert len(shown(found, limit)) <= limit
        assert len(identifier(found)) <= IDENTIFIER
        assert number(found) >= 0
        assert whole(found) is None or isinstance(found, int)
        assert all(isinstance(entry, dict) for entry in entries(found))
        assert as_json(found)


@given(JSON)
def test_a_reported_id_is_exactly_what_was_said_or_refused(value: object) -> None:
    """Nothing is made of an id: a resumed thread is proven by it."""
    with suppress(ProviderProtocolError):
        assert reported_identity(value, provider="p") == value


@pytest.mark.parametrize(
    "value", [None, 7, "", "two words", "x" * 257, ["t1"]], ids=["none", "number", "empty", "space", "long", "list"]
)
def test_what_could_be_nobodys_id_is_refused(value: object) -> None:
    """The error says what it is instead."""
    with pytest.raises(ProviderProtocolError, match=r"without a thread's id|a thread's id that is not 1 to 256"):
        reported_identity(value, provider="p")
    assert reported_identity("t1", provider="p") == "t1"


def test_json_that_is_nested_too_deeply_is_not_shown() -> None:
    """What could be read at the bottom of the stack may not be writable above it; nothing is raised for that."""
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == as_json(deep) == "[nested too deeply to be shown]"


def test_a_text_that_is_cut_says_so() -> None:
    """Also one character too many is a cut; the mark is inside the bound."""
    whole_text = "x" * EVENT_TEXT
    assert text(whole_text) == whole_text
    assert text(whole_text + "x") == whole_text[: -len(CUT)] + CUT
    assert text("abcdef", 4) == CUT[:4]


def test_members_are_found_by_path() -> None:
    """A path that leads nowhere, or through something else than an object, finds nothing."""
    value = {"a": {"b": {"c": 1}}, "d": [1]}
    assert member(value, "a", "b", "c") == 1
    assert member(value) == value
    assert [member(value, *path) for path in (("a", "x"), ("a", "b", "c", "d"), ("d", "0"))] == [None, None, None]


def test_numbers_are_whole() -> None:
    """A truth value is no number, and a count is never negative; an exit code may be."""
    assert [number(value) for value in (3, 0, -3, True, 2.5, "4", None)] == [3, 0, 0, 0, 0, 0, 0]
    assert [whole(value) for value in (3, 0, -3, True, 2.5, "4", None)] == [3, 0, -3, None, None, None, None]


def test_only_objects_of_a_list_are_entries() -> None:
    """A stray element hides no other."""
    assert entries([{"a": 1}, 7, None, {"b": 2}]) == ({"a": 1}, {"b": 2})
    assert entries({"a": 1}) == entries("ab") == ()


SHOWN: dict[str, tuple[object, str]] = {
    "nothing": (None, ""),
    "no arguments": ({}, ""),
    "text": ("plain", "plain"),
    "an object, as it stands": ({"b": 1, "a": "ä"}, '{"b": 1, "a": "ä"}'),
    "content": ([{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA"}, {"type": "text", "text": "b"}], "a\n[image]\nb"),
    "a list that is no content": ([{"type": "text"}, 7], '[{"type": "text"}, 7]'),
    "objects without a type": ([{"path": "a"}], '[{"path": "a"}]'),
    "a number": (7, "7"),
}


@pytest.mark.parametrize(("value", "expected"), SHOWN.values(), ids=SHOWN)
def test_what_a_person_is_shown_of_json(value: object, expected: str) -> None:
    """Texts are shown as texts, pictures by their kind, all else as JSON."""
    assert shown(value) == expected


def test_what_a_person_is_shown_is_bounded() -> None:
    """The model has the whole."""
    assert len(shown({"a": "x" * SHOWN_TEXT})) == SHOWN_TEXT
    assert shown({"a": "x" * SHOWN_TEXT}).endswith(CUT)


def test_equal_values_are_equal_texts() -> None:
    """What somebody decides about does not depend on the order in which a program wrote it."""
    assert as_json({"b": 1, "a": 2}) == as_json({"a": 2, "b": 1}) == '{"a": 2, "b": 1}'


def test_what_stands_beside_a_question() -> None:
    """A part that says nothing has no line, and one without a label stands as it is."""
    assert labelled(("in", "/w"), ("because", ""), ("", "a\nb")) == "in /w\na\nb"
