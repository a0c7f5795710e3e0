"""Bringing a thread back: exactly, from the captured files alone, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from jamcore.testing.providers.case import Case
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.pitfalls import ProviderPitfalls
from jamcore.testing.providers.resume import HOSTILE_WORDS, ProviderResume


def by_line(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """Return the damage that a change of its lines does to a file."""
    return lambda content: b"".join(change(content.splitlines(keepends=True)))


class TestResume(ProviderResume):
    """ExampleAgent's."""

    # The requests with which a thread that does not exist is refused.
    refused_by = frozenset({"thread/load"})
    # How the file of a conversation is damaged. Each has to be refused: no thread comes back with a hole.
    damage = {
        "emptied": lambda _: b"",
        "its beginning lost": by_line(lambda lines: lines[1:]),
        "a line in the middle lost": by_line(lambda lines: [*lines[:3], *lines[4:]]),
        "a line in the middle broken": by_line(lambda lines: [*lines[:3], b"{broken\n", *lines[4:]]),
        "its last line cut": by_line(lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]),
        "garbage": lambda _: bytes(range(256)) * 16,
    }

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Name the files that the agent could write and that your program might read or run: none of them may matter."""
        runs = f"open({str(mark)!r}, 'w').close()\n"
        return {
            case.work / "json.py": runs,
            case.guest.home / "json.py": runs,
            case.work / "sitecustomize.py": runs,
            case.guest.home / "sitecustomize.py": runs,
            case.guest.state / "config.json": "{broken",
            case.guest.state / "instructions.md": HOSTILE_WORDS,
        }


class TestKills(ProviderKills):
    """ExampleAgent's."""


class TestPitfalls(ProviderPitfalls):
    """ExampleAgent's."""
