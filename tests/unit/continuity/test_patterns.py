"""Globs over raw bytes, and the capture list: first match wins, what matches nothing is left alone (CONT-3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.continuity.tree.patterns import CaptureRules, Glob
from jamcore.domain.continuity import CaptureEntry, CaptureKind, CaptureList
from jamcore.domain.errors import InvalidInputError
from jamcore.system.trees import shown


def path(text: str) -> tuple[bytes, ...]:
    return tuple(text.encode().split(b"/"))


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a.json", "a.json", "b/a.json"),
        ("*.json", "x.json", "d/x.json"),
        ("**/*.json", "x.json", "x.jso"),
        ("**/*.json", "a/b/c/x.json", "x.json/y"),
        ("s/**", "s/a/b", "t/a"),
        ("s/**/r-?.l", "s/r-1.l", "s/r-12.l"),
        ("s/**/r-?.l", "s/2025/11/r-1.l", "r-1.l"),
        ("a/**/b/**/c", "a/b/x/b/c", "a/x/c"),
        ("[ab]x", "bx", "cx"),
        ("é*", "été", "ete"),
        ("n*", "n\nm", "m\nn"),
    ],
)
def test_patterns(pattern: str, matching: str, other: str) -> None:
    """Each pattern matches what it says and not its neighbour."""
    assert Glob(pattern).matches(path(matching))
    assert not Glob(pattern).matches(path(other))


@pytest.mark.parametrize("pattern", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\0b"])
def test_only_plain_relative_patterns(pattern: str) -> None:
    """A pattern that could point elsewhere is refused before anything is looked at."""
    with pytest.raises(InvalidInputError):
        Glob(pattern)


names = st.sampled_from([b"a", b"b", b"c"])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "?"]), min_size=1, max_size=5),
    st.lists(names, min_size=1, max_size=5),
    st.integers(0, 4),
)
def test_a_match_is_never_pruned_away(segments: list[str], found: list[bytes], cut: int) -> None:
    """Whatever matches is announced by each of its directories; whatever a pattern covers matches."""
    glob, whole = Glob("/".join(segments)), tuple(found)
    above = whole[: min(cut, len(whole) - 1)]
    if glob.matches(whole):
        assert glob.may_match_below(above)
    if glob.covers_below(above):
        assert glob.matches(whole)


kinds = st.sampled_from([CaptureKind.WHOLE, CaptureKind.APPEND_ONLY, CaptureKind.NEVER])
patterns = st.lists(st.sampled_from(["a", "b", "*", "**", "?"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(patterns, kinds), max_size=4), st.lists(patterns, max_size=2), st.lists(names, min_size=1, max_size=5))
def test_the_rules_of_a_directory_decide_as_those_of_the_whole_path(
    rules: list[tuple[str, CaptureKind]], credentials: list[str], found: list[bytes]
) -> None:
    """What is worked out once for a directory gives each name in it the kind that its whole path has, and the same credentials."""
    entries = tuple(CaptureEntry(pattern=pattern, kind=kind) for pattern, kind in rules)
    whole = CaptureRules(CaptureList(entries=entries, credential_patterns=tuple(credentials)))
    inside = whole.within(tuple(found[:-1]))
    assert inside.kind_of(found[-1]) is whole.kind_of(tuple(found))
    assert inside.is_credential(found[-1]) is whole.credentials.matches(tuple(found))


def test_the_first_match_decides() -> None:
    """An exception before a rule wins over it, and prunes what it covers; a rule before an exception wins over that."""
    rules = CaptureRules(
        CaptureList(
            entries=(
                CaptureEntry(pattern="s/keep.log", kind=CaptureKind.APPEND_ONLY),
                CaptureEntry(pattern="s/tmp/**", kind=CaptureKind.NEVER),
                CaptureEntry(pattern="s/**", kind=CaptureKind.WHOLE),
            )
        )
    )
    assert rules.kind_of(path("s/keep.log")) is CaptureKind.APPEND_ONLY
    assert rules.kind_of(path("s/tmp/x")) is CaptureKind.NEVER
    assert rules.kind_of(path("s/x")) is CaptureKind.WHOLE
    assert rules.kind_of(path("t/x")) is CaptureKind.NEVER
    assert rules.descends_into(path("s"))
    assert not rules.descends_into(path("s/tmp"))
    assert not rules.descends_into(path("t"))


def test_names_are_shown_without_harm() -> None:
    """What is not UTF-8 is escaped, not dropped."""
    assert shown((b"a", b"\xff\n")) == "a/\\xff\n"
