"""What the checks of a resume share: what a provider says of itself there, and a thread that was killed in its third turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.events import TextDelta, TurnStarted
from jamcore.domain.providers import ProviderGoneError, ProviderRefusedError, ThreadState
from jamcore.plugins.runtime import ReleasesThreads
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of
from jamcore.testing.providers.turns import DONE
from jamcore.testing.servers.script import Hold, Match, Rule, Text, say
from jamcore.testing.servers.server import ModelServer

HOSTILE_WORDS = "instructions-9917"
"""What a hostile file would make the agent read."""


@asked_of(Claim.CONTINUITY)
class ResumeTests(ProviderTests):
    """What a resume is.

    Attributes:
        gap: What the program itself says, in the model's name, where a turn was cut.
        refused_by: What was being asked when an unknown thread was refused (``ProviderRefusedError.request``).
        cut_output: A part of what the model is told of a command that was running when the program was killed.
        every_digest: After a resume the text of each turn is known by its digest, and not of the last alone.
        credential: A file of the state root as a login would leave it (``{identity}`` stands for the thread's), or empty.
        damage: How the one captured file of a conversation is damaged, by what is done to it.
        damage_error: What comes of that.
        damage_words: A regular expression that is found in its words.
    """

    gap: ClassVar[tuple[str, ...]] = ()
    refused_by: ClassVar[frozenset[str]]
    cut_output: ClassVar[str] = "interrupted"
    every_digest: ClassVar[bool] = False
    credential: ClassVar[str] = ""
    damage: ClassVar[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType({"emptied": lambda _: b""})
    damage_error: ClassVar[type[JamError]] = ProviderRefusedError
    damage_words: ClassVar[str] = "."

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Return broken and hostile files that an agent could write, by their places: in the workspace, the home, the state root.

        Args:
            case: The guest.
            identity: The thread that comes back.
            mark: A file that exists once something of this was run.
        """
        raise NotImplementedError

    async def let_go_of_and_back(self, case: Case) -> None:
        """Let go of a thread in a program that goes on: it takes no turn, may be let go of again, and comes back with its turns."""
        async with case.server(*self.rules(case)) as model, case.opened(model) as runtime:
            assert isinstance(runtime, ReleasesThreads)
            identity = await case.begin(runtime)
            await case.turn(runtime, identity, "first")
            await runtime.release_thread(identity)
            with pytest.raises(ProviderRefusedError, match="not loaded"):
                await case.turn(runtime, identity, "fourth")
            await runtime.release_thread(identity)
            again = await case.resume(runtime, identity)
            assert (again.identity, len(again.turns)) == (identity, 1)
            assert (await case.turn(runtime, identity, "fourth"))[-1] == DONE

    def look_untouched(self, case: Case) -> None:
        """Look that no conversation was begun in a guest where there was none."""
        assert case.captured() == []
        assert case.databases() == []

    def look_at_the_state(self, case: Case) -> None:
        """Look at what else lies in a guest after a turn."""

    def rules(self, case: Case) -> tuple[Rule, ...]:
        """Return the rules of a model for four turns: a tool in the first, an answer in the third that never ends.

        The later texts come first: some programs send the text of a turn that failed again, with the next one's.
        """
        look = (Text(deltas=("I look",)), case.provider.shell("c1", "echo tool-4411; exit 3"))
        return (
            say("answer-4", match=Match(last_user_contains="fourth")),
            Rule(
                match=Match(last_user_contains="third"),
                answer=(Text(deltas=("half ", "never said"), hold=Hold(gate="never", after=1)),),
            ),
            Rule(match=Match(last_user_contains="first", last_is_tool_output=False), answer=look, times=1),
            say("answer-1", match=Match(last_user_contains="first")),
            say("answer-2", match=Match(last_user_contains="second")),
        )

    async def killed_in_the_third(self, case: Case, model: ModelServer) -> tuple[ThreadState, list[str]]:
        """Run two turns and kill the program in the third; return the thread, and the provider's ids of the finished turns."""
        turns = []
        async with case.opened(model) as runtime:
            thread = await runtime.open_thread(case.request())
            for text in ("first", "second"):
                events = await case.turn(runtime, thread.identity, text)
                assert events[-1] == DONE
                turns += [event.provider_turn for event in events if isinstance(event, TurnStarted)]
            with pytest.raises(ProviderGoneError):
                await case.kill_at(TextDelta, runtime, thread.identity, "third")
            with anyio.fail_after(case.limit_s):
                assert "provider.gone" in await runtime.closed()
        return thread, turns
