"""Relative globs over raw bytes, and the capture list as a decision about one path (CONT-3).

``*`` and ``?`` stay within a name, ``**`` as a whole segment stands for any number of directories, none included, and ``[…]`` is a set
as in a shell. A pattern matches the whole path below the root.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterable
from dataclasses import dataclass

from jamcore.domain.continuity import CONVERSATION, CaptureKind, CaptureList
from jamcore.domain.errors import InvalidInputError
from jamcore.system.trees import Names

Path = Names

_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class NameTest:
    """What a pattern asks of a name in one directory: nothing any more, or that it matches any of these."""

    always: bool = False
    any_of: tuple[re.Pattern[bytes], ...] = ()

    def matches(self, name: bytes) -> bool:
        """Say whether the path that ends in ``name`` matches the pattern."""
        return self.always or any(segment.match(name) for segment in self.any_of)


class Glob:
    """One compiled pattern."""

    def __init__(self, pattern: str) -> None:
        segments = pattern.split("/")
        if not pattern or any(segment in ("", ".", "..") for segment in segments) or "\0" in pattern:
            raise InvalidInputError(field="pattern", problem=f"{pattern[:80]!r} is not a relative glob")
        self.pattern = pattern
        self._segments: tuple[re.Pattern[bytes] | None, ...] = tuple(
            None if segment == _ANY_DEPTH else _compile(segment) for segment in segments
        )

    def matches(self, path: Names) -> bool:
        """Say whether the whole path matches."""
        return len(self._segments) in self._after(path)

    def may_match_below(self, directory: Names) -> bool:
        """Say whether some path below ``directory`` could match."""
        return any(position < len(self._segments) for position in self._after(directory))

    def covers_below(self, directory: Names) -> bool:
        """Say whether every path below ``directory`` matches: the pattern has come to a final ``**``."""
        last = len(self._segments) - 1
        return self._segments[last] is None and last in self._after(directory)

    def within(self, directory: Names) -> NameTest | None:
        """Return what is left of the pattern for the names in a directory; ``None`` when none of them can match."""
        reached = self._after(directory)
        end = len(self._segments)
        ending = [position for position in reached if position < end and end in self._closure({position + 1})]
        if any(self._segments[position] is None for position in ending):
            return NameTest(always=True)
        left = tuple(segment for position in ending if (segment := self._segments[position]) is not None)
        return NameTest(any_of=left) if left else None

    def _after(self, path: Names) -> frozenset[int]:
        """Return the positions in the pattern at which ``path`` may have arrived."""
        reached = self._closure({0})
        for name in path:
            following: set[int] = set()
            for position in reached:
                if position < len(self._segments):
                    segment = self._segments[position]
                    if segment is None:
                        following.add(position)
                    elif segment.match(name):
                        following.add(position + 1)
            reached = self._closure(following)
        return reached

    def _closure(self, positions: set[int]) -> frozenset[int]:
        """Add what is reached without a name: ``**`` may stand for nothing."""
        found = set(positions)
        for position in sorted(positions):
            step = position
            while step < len(self._segments) and self._segments[step] is None:
                step += 1
                found.add(step)
        return frozenset(found)


class Globs:
    """Several patterns, of which any may match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.globs = tuple(Glob(pattern) for pattern in patterns)

    def matches(self, path: Names) -> bool:
        """Say whether any pattern matches the path."""
        return any(glob.matches(path) for glob in self.globs)

    def within(self, directory: Names) -> tuple[NameTest, ...]:
        """Return what is left of the patterns for the names in a directory."""
        return tuple(test for glob in self.globs if (test := glob.within(directory)) is not None)

    def may_match_below(self, directory: Names) -> bool:
        """Say whether anything below the directory could match."""
        return any(glob.may_match_below(directory) for glob in self.globs)


def conversation_globs(patterns: Iterable[str], identities: Iterable[str]) -> Globs:
    """Put conversations into the patterns by which their files are told. Escaped: an id with a star in it would stand for others, too."""
    patterns = tuple(patterns)
    return Globs(each.replace(CONVERSATION, glob.escape(identity)) for identity in identities for each in patterns)


@dataclass(frozen=True, slots=True)
class _Rule:
    glob: Glob
    kind: CaptureKind


class NameRules:
    """A capture list for the names in one directory. The way to the directory is matched once, not again for each name in it."""

    def __init__(self, rules: Iterable[tuple[NameTest, CaptureKind]], credentials: tuple[NameTest, ...]) -> None:
        self._rules = tuple(rules)
        self._credentials = credentials

    def kind_of(self, name: bytes) -> CaptureKind:
        """Return how a file of this name is captured."""
        for test, kind in self._rules:
            if test.always or test.matches(name):
                return kind
        return CaptureKind.NEVER

    def is_credential(self, name: bytes) -> bool:
        """Say whether the plugin declared a file of this name as a credential."""
        return bool(self._credentials) and any(test.matches(name) for test in self._credentials)


class CaptureRules:
    """A capture list, compiled: the first pattern that matches decides; what matches nothing is not captured."""

    def __init__(self, declared: CaptureList) -> None:
        self._rules = tuple(_Rule(Glob(entry.pattern), entry.kind) for entry in declared.entries)
        self.credentials = Globs(declared.credential_patterns)
        self.guest_scratch = declared.guest_scratch
        self.has_databases = any(entry.kind is CaptureKind.DATABASE for entry in declared.entries)

    def kind_of(self, path: Names) -> CaptureKind:
        """Return how a file is captured."""
        for rule in self._rules:
            if rule.glob.matches(path):
                return rule.kind
        return CaptureKind.NEVER

    def within(self, directory: Names) -> NameRules:
        """Return the rules for the names in one directory; they decide as :meth:`kind_of` does for the whole path."""
        left = ((rule.glob.within(directory), rule.kind) for rule in self._rules)
        return NameRules(((test, kind) for test, kind in left if test is not None), self.credentials.within(directory))

    def descends_into(self, directory: Names) -> bool:
        """Say whether a directory can hold a captured file, so that it has to be looked into."""
        for rule in self._rules:
            if rule.kind is CaptureKind.NEVER:
                if rule.glob.covers_below(directory):
                    return False
            elif rule.glob.may_match_below(directory):
                return True
        return False


def _compile(segment: str) -> re.Pattern[bytes]:
    # Latin-1 carries each byte of the UTF-8 pattern through ``translate`` unchanged; ``(?s)`` lets ``*`` and ``?`` match a newline.
    text = fnmatch.translate(segment.encode().decode("latin-1"))
    return re.compile(text.encode("latin-1"))
