"""Programs that are not the one that was expected, or no longer well: every nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.events import ProviderEvent, TextDelta
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.providers import ProviderRefusedError, ThreadRequest
from jamcore.domain.sandboxes import ExecRefusedError
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of, not_claimed
from jamcore.testing.providers.opening import opened
from jamcore.testing.providers.standin import NOWHERE, Bad, StandIn
from jamcore.testing.providers.turns import DONE

LIMIT_S = 30.0
KEPT = "kept"
"""What a stand-in says in each turn, before the place ``running``."""
NOTHING: Mapping[str, str] = MappingProxyType({})
Nonsense = Mapping[str, tuple[str, type[JamError]]]
"""What a program does, by its name: the statements, and the error that comes of it."""


class ProviderBadPrograms(ProviderTests):
    """What becomes of bad programs. The stand-in has a place ``running`` in its turns, after it said :data:`KEPT`.

    Attributes:
        stand_in: The program that behaves.
        wanted: What a thread is opened with.
        nonsense: What it may do at any place, and what comes of it.
        no_thread: What it may answer besides where a thread is begun or back.
        thread_places: Where it answers that a thread is begun, and that one is back.
        up_place: Where it answers when the runtime is opened.
        not_up: What it may do there.
        other_version: A version that is not the program's.
        version_words: A regular expression that the refusal of that version matches.
        absent_error: What comes of a program that is not there.
        another: Statements with which a thread that comes back is called ``another``.
        stray: Statements that say what is of other turns, of other threads, or of a kind that nobody knows; empty: its protocol has none.
        unanswered: Statements with which the program does not answer an interrupt, and ends the turn all the same.
        kinds: The kinds of events of a turn in which it only says :data:`KEPT`.
    """

    stand_in: ClassVar[StandIn]
    wanted: ClassVar[ThreadRequest] = ThreadRequest(cwd="/", model="m")
    nonsense: ClassVar[Nonsense]
    no_thread: ClassVar[Nonsense] = MappingProxyType({})
    thread_places: ClassVar[tuple[str, ...]]
    up_place: ClassVar[str]
    not_up: ClassVar[Nonsense]
    other_version: ClassVar[str]
    version_words: ClassVar[str]
    absent_error: ClassVar[type[Exception] | tuple[type[Exception], ...]] = ExecRefusedError
    another: ClassVar[Mapping[str, str]]
    stray: ClassVar[str] = ""
    unanswered: ClassVar[Mapping[str, str]] = NOTHING
    kinds: ClassVar[tuple[str, ...]] = ("turn.started", "text.delta", "turn.ended")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each misbehaviour that the subclass names."""
        tables = {
            "any_nonsense": [*self.nonsense, *self.no_thread],
            "nonsense_in_turn": [*self.nonsense],
            "failing": [*self.not_up],
        }
        for name, values in tables.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values)

    @pytest.fixture
    async def hooks(self, case: Case) -> ProviderHooks:
        """The hooks of the plugin whose program the stand-in is."""
        return case.hooks

    @pytest.fixture
    def bad(self, case: Case, hooks: ProviderHooks, tmp_path: Path) -> Bad:
        """Open the runtime over the stand-in with one misbehaviour."""
        tools = tmp_path / "tools"

        def opening(*, expected_version: str | None = None, **places: str) -> AbstractAsyncContextManager[ProviderRuntime]:
            self.stand_in.write(tools, **places)
            return opened(hooks, case.guest, NOWHERE, tools, expected_version)

        return opening

    async def look_at_the_hung(self, runtime: ProviderRuntime, identity: ProviderIdentity) -> None:
        """Look at what becomes of a thread whose program hangs, when its turn was left."""

    async def begin(self, runtime: ProviderRuntime) -> ProviderIdentity:
        """Open a thread and return its identity."""
        return provider_identity((await runtime.open_thread(self.wanted)).identity)

    async def test_nonsense_instead_of_a_thread(self, bad: Bad, any_nonsense: str) -> None:
        """Opening raises the typed error, resuming one too; nothing hangs, and the program is gone afterwards.

        What cannot be read must be an error with a name: a wait has none, and a traceback is not for people.
        """
        statements, expected = {**self.nonsense, **self.no_thread}[any_nonsense]
        with anyio.fail_after(LIMIT_S):
            async with bad(**dict.fromkeys(self.thread_places, statements)) as runtime:
                with pytest.raises(expected):
                    await runtime.open_thread(self.wanted)
                with pytest.raises(JamError):
                    await runtime.resume_thread(provider_identity("unknown"), self.wanted)

    async def test_nonsense_in_a_turn_cuts_it_after_what_was_delivered(self, bad: Bad, nonsense_in_turn: str) -> None:
        """The delta before the nonsense arrives, then the iterator raises; ``closed`` says why the program is of no use any more.

        What a person has read was said; a turn that goes on after nonsense may say anything.
        """
        statements, expected = self.nonsense[nonsense_in_turn]
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(running=statements) as runtime:
                identity = await self.begin(runtime)
                with pytest.raises(expected):
                    await collect(runtime, identity, seen)
                assert await runtime.closed()
        assert words_of(seen) == KEPT

    async def test_a_program_that_does_not_come_up(self, bad: Bad, failing: str) -> None:
        """No version, an early end, a banner on the output: entering the context raises a typed error.

        A session that waits for a program that is gone holds its seat, and its owner waits with it.
        """
        statements, expected = self.not_up[failing]
        with anyio.fail_after(LIMIT_S), pytest.raises(expected):
            async with bad(**{self.up_place: statements}):
                pytest.fail("entered")

    async def test_another_version_than_the_pinned_one_is_refused(self, bad: Bad) -> None:
        """The version is the running program's own answer, and it is compared before any thread is touched.

        Every statement about the program was measured at the pinned one: another may write what cannot be resumed.
        """
        with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match=self.version_words):
            async with bad(expected_version=self.other_version):
                pytest.fail("entered")

    async def test_a_program_that_is_not_there(self, case: Case, hooks: ProviderHooks, tmp_path: Path) -> None:
        """The launcher's own refusal passes through.

        It says that the toolchain is not installed, which is for a person to mend, not that the agent failed.
        """
        with pytest.raises(self.absent_error):
            async with opened(hooks, case.guest, NOWHERE, tmp_path / "empty"):
                pytest.fail("entered")

    async def test_the_plugin_opens_nothing_before_its_context_is_entered(
        self, case: Case, hooks: ProviderHooks, tmp_path: Path
    ) -> None:
        """The hook returns at once; a context that is never entered has started no program.

        What was started outside a context is ended by nobody when the start is cancelled.
        """
        await hooks.open_runtime(case.guest.runtime_request(tmp_path, NOWHERE), case.guest)
        assert case.guest.processes == []

    @pytest.mark.guarantee("CONT-7")
    async def test_another_identity_is_returned_as_it_is(self, bad: Bad) -> None:
        """The plugin never papers over a wrong thread: the core compares. Nothing can be said in the one that was wanted.

        One that is replaced by the wanted one hides the one fault that a resume must never have.
        """
        with anyio.fail_after(LIMIT_S):
            async with bad() as runtime:
                identity = await self.begin(runtime)
                await collect(runtime, identity, [])
            async with bad(**self.another) as runtime:
                state = await runtime.resume_thread(identity, self.wanted)
                with pytest.raises(ProviderRefusedError):
                    await collect(runtime, identity, [])
        assert state.identity == "another"

    @pytest.mark.guarantee("CONT-7", "SHARE-5")
    @asked_of(Claim.PROCESS_SHARED)
    async def test_a_siblings_identity_leaves_the_sibling_alone(self, bad: Bad) -> None:
        """A thread that comes back under the id of one that is loaded takes nothing from it: the turn that runs there is still its own.

        On a shared host it is another room's, whose owner has decided what is asked in it.
        """
        with anyio.fail_after(LIMIT_S):
            async with bad(running="continue") as runtime:
                identity = await self.begin(runtime)
                async with runtime.turn(identity, "hello") as events:
                    while not isinstance(await anext(events), TextDelta):
                        pass
                    assert (await runtime.resume_thread(provider_identity("wanted"), self.wanted)).identity == identity
                    await runtime.interrupt(identity)
                    assert [event.kind async for event in events] == ["turn.ended"]
                with pytest.raises(ProviderRefusedError):
                    await collect(runtime, "wanted", [])

    async def test_an_interrupt_that_is_never_answered_still_ends_with_the_turn(self, case: Case, bad: Bad) -> None:
        """Programs may not answer an interrupt of a turn that just ended; the end mark counts.

        A wait for both is a wait for ever.
        """
        if not self.unanswered:
            not_claimed(case, "has an answer to each interrupt, or none to any")
        with anyio.fail_after(LIMIT_S):
            async with bad(running="continue", **self.unanswered) as runtime:
                identity = await self.begin(runtime)
                async with runtime.turn(identity, "hello") as events:
                    kinds = []
                    async for event in events:
                        kinds.append(event.kind)
                        if isinstance(event, TextDelta):
                            await runtime.interrupt(identity)
        assert tuple(kinds) == self.kinds

    @pytest.mark.slow
    async def test_a_program_that_hangs_is_left_within_bounds(self, case: Case, bad: Bad) -> None:
        """It answers neither the interrupt nor the end of its input: leaving takes the sum of the two bounds, and then it is gone.

        A host with a program that hangs must still stop, in a time that can be told beforehand.
        """
        with anyio.fail_after(LIMIT_S):
            async with bad(running="time.sleep(100)") as runtime:
                identity = await self.begin(runtime)
                async with runtime.turn(identity, "hello") as events:
                    assert (await anext(events)).kind == "turn.started"
                await self.look_at_the_hung(runtime, identity)
            assert not (await case.guest.processes[-1].wait()).ok

    async def test_what_is_of_other_threads_and_turns_is_not_mixed_in(self, case: Case, bad: Bad) -> None:
        """A stray end mark ends nothing, another thread's text is nobody's, and a kind that is not known changes nothing.

        On a shared host they are other people's, and new versions of a program say new things.
        """
        if not self.stray:
            not_claimed(case, "has one connection for each thread")
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(running=self.stray) as runtime:
                await collect(runtime, await self.begin(runtime), seen)
        assert words_of(seen) == KEPT
        assert tuple(event.kind for event in seen) == self.kinds
        assert seen[-1] == DONE


async def collect(runtime: ProviderRuntime, identity: str, seen: list[ProviderEvent], text: str = "hello") -> None:
    """Run a turn and keep each event as it comes, so that what came before an error can be looked at."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(provider_identity(identity), text) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - an error in between must not lose them


def words_of(events: list[ProviderEvent]) -> str:
    """Return what was said in deltas."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))
