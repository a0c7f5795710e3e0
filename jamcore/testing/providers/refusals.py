"""Threads that do not come back, and are refused instead: unknown, empty, held by another program, loaded already, damaged."""

from __future__ import annotations

import shutil

import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.providers import ProviderRefusedError
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.claims import Claim, asked_of
from jamcore.testing.providers.resuming import ResumeTests
from jamcore.testing.providers.turns import DONE


class RefusalTests(ResumeTests):
    """What is refused."""

    @pytest.mark.guarantee("CONT-1")
    async def test_an_unknown_thread_is_refused_and_no_other_is_begun(self, case: Case) -> None:
        """Whatever it is called: the refusal is typed, nothing new appears among what is kept, and the model is asked nothing.

        Programs begin a blank thread under a name that they do not know, and the person talks to a stranger.
        """
        async with case.running(*self.rules(case)) as (model, runtime):
            for identity in (case.provider.unknown, "no-id", "../../etc/passwd", case.provider.unknown.upper()):
                with pytest.raises(ProviderRefusedError) as caught:
                    await case.resume(runtime, identity)
                assert caught.value.request in self.refused_by, identity
                with pytest.raises(ProviderRefusedError):
                    await case.turn(runtime, identity, "hello")
        assert not model.requests
        self.look_untouched(case)

    @pytest.mark.guarantee("CONT-1")
    async def test_a_thread_killed_before_its_first_turn_comes_back_empty_or_not_at_all(self, case: Case) -> None:
        """Where nothing of it is kept yet the resume is refused, and the session, which never bound an identity, starts fresh.

        A thread that comes back as something else would bind an identity that nothing was said in.
        """
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.kill()
            async with case.opened(model) as runtime:
                if not case.provider.keeps_empty_threads:
                    with pytest.raises(ProviderRefusedError):
                        await case.resume(runtime, identity)
                    return
                again = await case.resume(runtime, identity)
                assert (again.identity, again.turns) == (identity, ())
                assert (await case.turn(runtime, identity, "second"))[-1] == DONE

    @pytest.mark.guarantee("CONT-1")
    @asked_of(Claim.SINGLE_WRITER)
    async def test_a_thread_that_another_program_holds_is_refused(self, case: Case) -> None:
        """The second is refused, what is kept is as it was, and the first goes on; two writers lose each other's turns.

        Most programs look at nothing before they write.
        """
        async with case.server(*self.rules(case)) as model, case.opened(model) as first:
            identity = await case.begin(first)
            await case.turn(first, identity, "second")
            before = [path.read_bytes() for path in case.captured()]
            async with case.opened(model) as second:
                with pytest.raises(ProviderRefusedError):
                    await case.resume(second, identity)
            assert [path.read_bytes() for path in case.captured()] == before
            assert (await case.turn(first, identity, "fourth"))[-1] == DONE

    @pytest.mark.guarantee("CONT-1")
    @asked_of(Claim.PROCESS_EACH)
    async def test_a_thread_that_is_loaded_is_not_loaded_again(self, case: Case) -> None:
        """A second resume in the same runtime is refused: it would start a second program that writes the same files.

        Which of the two a turn went to would be chance.
        """
        async with case.running(*self.rules(case)) as (_, runtime):
            identity = await case.begin(runtime)
            await case.turn(runtime, identity, "second")
            with pytest.raises(ProviderRefusedError, match="loaded"):
                await case.resume(runtime, identity)
            assert (await case.turn(runtime, identity, "fourth"))[-1] == DONE

    @pytest.mark.guarantee("CONT-1")
    async def test_what_is_damaged_is_refused_and_left_as_it_is(self, case: Case) -> None:
        """Also where the program itself would go on without what it cannot read: something that was said would be gone.

        What a program mends in its own way cannot be mended by a person any more.
        """
        async with case.server(*self.rules(case)) as model:
            thread, _ = await self.killed_in_the_third(case, model)
            places = [*case.captured(), *case.databases()]
            [kept] = places
            whole = kept.read_bytes()
            for name, damage in self.damage.items():
                for directory in case.capture.guest_scratch:
                    shutil.rmtree(case.guest.home / directory, ignore_errors=True)  # a restore does that too
                for beside in kept.parent.glob(f"{kept.name}-*"):  # what a database writes first
                    beside.unlink()
                kept.write_bytes(damage(whole))
                before = kept.read_bytes()
                async with case.opened(model) as runtime:
                    with pytest.raises(self.damage_error, match=self.damage_words):
                        await case.resume(runtime, thread.identity)
                    with pytest.raises(JamError):
                        await case.turn(runtime, thread.identity, "fourth")
                assert kept.read_bytes() == before, name
                assert [*case.captured(), *case.databases()] == places, name
