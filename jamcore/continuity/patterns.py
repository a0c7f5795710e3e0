"""Relative globs over raw bytes, and the capture list as a decision about one path (CONT-3).

``*`` and ``?`` stay within a name, ``**`` as a whole segment stands for any number of directories, none included, and ``[…]`` is a set
as in a shell. A pattern matches the whole path below the root.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

from jamcore.domain.continuity import CaptureKind, CaptureList
from jamcore.domain.errors import InvalidInputError

Path = tuple[bytes, ...]
"""A path below a root, as raw names."""

_ANY_DEPTH = "**"


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

    def matches(self, path: Path) -> bool:
        """Say whether the whole path matches."""
        return len(self._segments) in self._after(path)

    def may_match_below(self, directory: Path) -> bool:
        """Say whether some path below ``directory`` could match."""
        return any(position < len(self._segments) for position in self._after(directory))

    def covers_below(self, directory: Path) -> bool:
        """Say whether every path below ``directory`` matches: the pattern has come to a final ``**``."""
        last = len(self._segments) - 1
        return self._segments[last] is None and last in self._after(directory)

    def _after(self, path: Path) -> frozenset[int]:
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

    def matches(self, path: Path) -> bool:
        """Say whether any pattern matches the path."""
        return any(glob.matches(path) for glob in self.globs)

    def may_match_below(self, directory: Path) -> bool:
        """Say whether anything below the directory could match."""
        return any(glob.may_match_below(directory) for glob in self.globs)


@dataclass(frozen=True, slots=True)
class _Rule:
    glob: Glob
    kind: CaptureKind


class CaptureRules:
    """A capture list, compiled: the first pattern that matches decides; what matches nothing is not captured."""

    def __init__(self, declared: CaptureList) -> None:
        self._rules = tuple(_Rule(Glob(entry.pattern), entry.kind) for entry in declared.entries)
        self.credentials = Globs(declared.credential_patterns)
        self.guest_scratch = declared.guest_scratch

    def kind_of(self, path: Path) -> CaptureKind:
        """Return how a file is captured."""
        for rule in self._rules:
            if rule.glob.matches(path):
                return rule.kind
        return CaptureKind.NEVER

    def descends_into(self, directory: Path) -> bool:
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


def shown(path: Path) -> str:
    """Return a path for a person: bytes that are not UTF-8 are escaped."""
    return b"/".join(path).decode("utf-8", "backslashreplace")
