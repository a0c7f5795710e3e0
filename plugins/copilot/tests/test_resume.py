"""Bringing a thread of the real Copilot back: exactly, from the captured file alone, or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from jamcore.api import ThreadRequest
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.resume import HOSTILE_WORDS, ProviderResume

pytestmark = [pytest.mark.needs("copilot"), pytest.mark.unprivileged]

SERVERS = '{{"mcpServers": {{"evil": {{"type": "local", "tools": ["*"], "command": "touch", "args": ["{mark}"]}}}}}}'
HOOKS = (
    '{{"version": 1, "hooks": {{"sessionStart": [{{"type": "command", "bash": "touch {mark}"}}], '
    '"userPromptSubmitted": [{{"type": "command", "bash": "touch {mark}"}}]}}}}'
)


def by_line(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """Return the damage that a change of its lines does to a journal."""
    return lambda content: b"".join(change(content.splitlines(keepends=True)))


def journal(case: Case) -> Path:
    """Return the one journal."""
    [found] = case.captured()
    return found


class TestResume(ProviderResume):
    """Copilot's."""

    refused_by = frozenset({"sessions.checkInUse", "session.resume"})
    cut_output = "interrupted before a result was recorded"
    damage = MappingProxyType(
        {
            "emptied": lambda _: b"",
            "its beginning lost": by_line(lambda lines: lines[1:]),
            "a line in the middle broken": by_line(lambda lines: [*lines[:3], b"{broken\n", *lines[4:]]),
            "its last line cut": by_line(lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]),
            "garbage": lambda _: bytes(range(256)) * 16,
        }
    )

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Broken files, and servers and hooks that would run something, wherever Copilot looks for any."""
        state, work = case.guest.state, case.work
        hooks, servers = HOOKS.format(mark=mark), SERVERS.format(mark=mark)
        return {
            state / "config.json": "{broken",
            state / "settings.json": hooks,
            state / "mcp-config.json": servers,
            state / "hooks" / "h.json": hooks,
            state / "copilot-instructions.md": HOSTILE_WORDS,
            journal(case).parent / "workspace.yaml": "{broken: [",
            work / ".mcp.json": servers,
            work / ".github" / "mcp.json": servers,
            work / ".github" / "hooks" / "h.json": hooks,
        }

    @pytest.mark.guarantee("CONT-7")
    async def test_a_thread_that_was_let_go_of_takes_no_turn_and_comes_back(self, case: Case) -> None:
        """In the same program: what it has loaded is no longer in use."""
        await self.let_go_of_and_back(case)

    async def test_a_resumed_thread_keeps_its_model_unless_another_is_named(self, case: Case) -> None:
        """What it was opened with is in the journal; what a resume names is used from then on."""
        used = []
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "second")
            for name in (None, "other-model", None):
                async with case.opened(model) as runtime:
                    await runtime.resume_thread(identity, ThreadRequest(cwd=str(case.work), model=name))
                    await case.turn(runtime, identity, "fourth")
                body = model.model_requests[-1].body
                assert isinstance(body, dict)
                used.append(body["model"])
        assert used == [case.provider.model, "other-model", "other-model"]

    async def test_a_lock_that_a_killed_program_left_keeps_nobody_out(self, case: Case) -> None:
        """Its number may be another process's by now: in a new sandbox numbers begin anew."""
        async with case.server(*self.rules(case)) as model:
            identity = (await self.killed_in_the_third(case, model))[0].identity
            for old in journal(case).parent.glob("inuse.*"):
                old.rename(old.with_name(f"inuse.{os.getpid()}{old.suffix}"))
            (journal(case).parent / f"inuse.{os.getpid()}.lock").write_text(f"{os.getpid()}\n")
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
        assert again.identity == identity
        assert "copilot" not in Path(sys.executable).name  # the test's own process took the number


class TestKills(ProviderKills):
    """Copilot's."""
