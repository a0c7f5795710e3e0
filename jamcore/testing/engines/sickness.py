"""A sick engine: what it cannot know it says, and nothing is cleaned up or made on a guess."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.sandboxes import EngineUnknownError, Presence, SandboxSpec
from jamcore.testing.engines.base import EngineTests, Sickness
from jamcore.testing.engines.box import opened
from jamcore.testing.engines.checks import NOT_CLAIMED, Topic, check

ANSWER_LIMIT_S = 30.0
"""A sick engine's own bound for an answer is shorter than this, or its callers hang with it."""


class SicknessTests(EngineTests):
    """What an engine says when its control fails."""

    @check(Topic.SICK, "A listing that came back empty from an unreachable engine made every disk an orphan, and all were deleted.")
    @pytest.mark.parametrize("sickness", Sickness)
    async def test_unknown_is_not_absent(self, spec: SandboxSpec, tmp_path: Path, sickness: Sickness) -> None:
        """While the engine cannot know, nothing is called absent, made anew or removed; afterwards the sandbox is as it was."""
        if sickness not in self.sicknesses:
            pytest.skip(f"{NOT_CLAIMED}{self.plugin.name} has no control that fails by {sickness}")
        async with opened(self.plugin, tmp_path) as engine:
            await engine.create(spec)
            assert (await self.box_of(engine, spec).run("sh", "-c", "echo kept > ~/file")).status.ok
            await engine.stop(spec.name)
        with self.sicken(sickness, tmp_path / "engine", spec), anyio.fail_after(ANSWER_LIMIT_S):
            async with opened(self.plugin, tmp_path) as engine:
                with pytest.raises(EngineUnknownError):
                    await engine.presence(spec.name)
                with suppress(EngineUnknownError):  # the other honest answer
                    assert spec.name in [item.name for item in await engine.inventory()]
                with pytest.raises(JamError):
                    await engine.create(spec)
                with pytest.raises(JamError):
                    await engine.remove(spec.name)
        async with opened(self.plugin, tmp_path) as engine:
            assert await engine.presence(spec.name) is Presence.STOPPED
            await engine.start(spec.name)
            assert (await self.box_of(engine, spec).run("sh", "-c", "cat ~/file")).text == "kept"
