"""Bringing a thread back: exactly, from what is captured alone, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from jamcore.domain.events import CommandStarted, TurnOutcome, TurnStarted
from jamcore.domain.ids import provider_identity
from jamcore.domain.providers import ProviderGoneError, ProviderRefusedError
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.guards import descendants, kill
from jamcore.testing.providers.case import POLL_S, Case, told
from jamcore.testing.providers.claims import Claim, asked_of, declaration
from jamcore.testing.providers.fixtures import MakeGuest
from jamcore.testing.providers.refusals import RefusalTests
from jamcore.testing.providers.resuming import HOSTILE_WORDS
from jamcore.testing.providers.turns import DONE
from jamcore.testing.servers.history import AssistantText, ToolCall, ToolOutput, UserText, contains_in_order
from jamcore.testing.servers.script import Match, say

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "short": "second",
        "white space": " second \u00e9\r\n  two lines \t",
        "marks": "second <b>&\u00e9\U0001f600\x01 \u2028",
        "slash": "/clear second",
        "long": "second " + "x" * 300_000,
    }
)
"""Texts that programs are tempted to trim, escape, cut or obey."""
SQLITE = b"SQLite format 3\0"


class ProviderResume(RefusalTests):
    """What a resume is. The attributes are those of :class:`ResumeTests`."""

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    async def test_a_thread_killed_in_a_turn_comes_back_exactly(self, case: Case) -> None:
        """After SIGKILL in the middle of an answer the same id comes back with its turns, and the model is told all that was said before.

        The cut turn reads as interrupted; the half answer is in no later request.
        """
        async with case.server(*self.rules(case)) as model:
            thread, turns = await self.killed_in_the_third(case, model)
            before = told(model)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, thread.identity)
                events = await case.turn(runtime, thread.identity, "fourth")
            after = told(model)
            assert not model.unmatched
        assert again.identity == thread.identity
        assert [turn.provider_turn for turn in again.turns[:2]] == turns
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED]
        digests = [sha256(text).hexdigest() for text in (b"first", b"second", b"third")]
        assert again.turns[-1].text_digest == digests[-1]
        assert all(turn.text_digest in {None, digest} for turn, digest in zip(again.turns, digests, strict=True))
        assert events[-1] == DONE
        assert contains_in_order(before, after) is None
        assert [item.text for item in after if isinstance(item, UserText)] == ["first", "second", "third", "fourth"]
        assert [item.text for item in after if isinstance(item, AssistantText)] == ["I look", "answer-1", "answer-2", *self.gap]
        assert [item.call_id for item in after if isinstance(item, ToolCall)] == ["c1"]
        assert ["tool-4411" in item.output for item in after if isinstance(item, ToolOutput)] == [True]

    @pytest.mark.guarantee("CONT-3", "CONT-5")
    async def test_what_is_captured_alone_brings_the_thread_back(self, case: Case, make_guest: MakeGuest) -> None:
        """In another guest that holds nothing but what is captured, the same thread goes on with the same history.

        A file that is needed and not captured is missed on the day on which the host is gone.
        """
        new = case.at(await make_guest("new"))
        async with case.server(*self.rules(case)) as model:
            thread, _ = await self.killed_in_the_third(case, model)
            before = told(model)
            case.restore_to(new)
            async with new.opened(model) as runtime:
                cwd = case.work if case.provider.keeps_directory else new.work
                again = await new.resume(runtime, thread.identity, cwd=cwd)
                await new.turn(runtime, thread.identity, "fourth")
            after = told(model)
        assert again.identity == thread.identity
        assert len(again.turns) == 3
        assert contains_in_order(before, after) is None

    @pytest.mark.guarantee("CONT-1", "WS-5")
    @asked_of(Claim.ONE_CONVERSATION)
    async def test_the_files_of_one_conversation_bring_it_back_without_its_sibling(self, case: Case, make_guest: MakeGuest) -> None:
        """What the patterns of a conversation find is its own, and all that it needs in a guest where the other never was.

        An export of one room must hold all of it, and nothing of its neighbours.
        """
        new = case.at(await make_guest("new"))
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                one, other = [await case.begin(runtime) for _ in range(2)]
                await case.turn(runtime, other, "second")
                await case.turn(runtime, one, "first")
            before = told(model)
            assert len(case.captured()) == 2
            case.restore_to(new, [pattern.format(identity=one) for pattern in case.capture.conversation_patterns])
            async with new.opened(model) as runtime:
                again = await new.resume(runtime, one)
                await new.turn(runtime, one, "fourth")
                with pytest.raises(ProviderRefusedError):
                    await new.resume(runtime, other)
            after = told(model)
        assert (again.identity, len(again.turns)) == (one, 1)
        assert contains_in_order(before, after) is None
        assert [item.text for item in after if isinstance(item, UserText)] == ["first", "fourth"]

    @pytest.mark.guarantee("CONT-3")
    @asked_of(Claim.APPEND_ONLY)
    async def test_what_is_declared_append_only_only_ever_grows(self, case: Case) -> None:
        """The bytes before a kill, a resume and a turn are a prefix of those after, in the one file that there is.

        The core copies only what was added; a file that was written anew would be stored as a mixture.
        """
        async with case.server(*self.rules(case)) as model:
            thread, _ = await self.killed_in_the_third(case, model)
            [kept] = case.captured()
            before = kept.read_bytes()
            async with case.opened(model) as runtime:
                await case.resume(runtime, thread.identity)
                await case.turn(runtime, thread.identity, "fourth")
            assert case.captured() == [kept]
        assert kept.read_bytes().startswith(before)

    @pytest.mark.guarantee("CONT-5", "SEC-7")
    async def test_what_is_captured_holds_no_database_and_no_credential(self, case: Case) -> None:
        """Live databases lie where they are declared, on the guest's own disk, and what a login leaves is in nothing that is captured.

        A database that is copied while it is written is garbage, and a checkpoint goes wherever an export goes.
        """
        async with case.running(*self.rules(case)) as (_, runtime):
            identity = await case.begin(runtime)
            await case.turn(runtime, identity, "second")
            if self.credential:
                login = case.guest.state / self.credential.format(identity=identity)
                login.parent.mkdir(parents=True, exist_ok=True)
                login.write_text("{}")
            secret = case.captured(case.capture.credential_patterns)
            captured = case.captured()
        assert captured or case.databases()
        found = [str(path.relative_to(case.guest.state)) for path in secret]
        patterns = f"`credential_patterns` {case.capture.credential_patterns} find {found or 'nothing'} below the state root"
        assert bool(secret) is bool(self.credential), f"{declaration(self, 'credential')}, and {patterns}"
        assert not set(captured) & set(secret), (
            f"captured and a credential at once: {sorted(set(captured) & set(secret))}; {patterns}"
        )
        scratch = [case.guest.home / place for place in case.capture.guest_scratch]
        assert all(list(place.iterdir()) for place in scratch)
        assert [path for path in files(case.guest.state) if is_database(path)] == []
        assert {path for path in files(case.guest.home) if is_database(path) and not set(path.parents) & set(scratch)} == set(
            case.databases()
        )
        assert not case.activation.check or case.captured(case.activation.check)
        self.look_at_the_state(case)

    @pytest.mark.guarantee("CONT-1")
    async def test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it(self, case: Case, tmp_path: Path) -> None:
        """Broken and hostile configuration changes neither the resume, nor what is run at its start, nor where requests go.

        The agent can write all of them, and so can who writes to the agent.
        """
        mark = tmp_path / "it-was-run"
        async with case.server(*self.rules(case)) as model:
            thread, _ = await self.killed_in_the_third(case, model)
            before = told(model)
            for place, content in self.hostile_files(case, thread.identity, mark).items():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(content)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, thread.identity)
                assert (await case.turn(runtime, thread.identity, "fourth"))[-1] == DONE
            assert contains_in_order(before, told(model)) is None
            assert HOSTILE_WORDS not in str(model.model_requests[-1].body)
        assert again.identity == thread.identity
        assert not mark.exists()

    @pytest.mark.guarantee("CONT-11")
    async def test_the_last_text_is_known_by_its_digest(self, case: Case) -> None:
        """The person's text is kept to the byte, so its digest says whether a turn that Jam does not know is the one that was sent.

        Without it a turn that was cut is run twice, or never.
        """
        texts = [list(TEXTS.values())] if self.every_digest else [[text] for text in TEXTS.values()]
        begun: list[tuple[str, list[str]]] = []
        async with case.server(say("hi")) as model:
            async with case.opened(model) as runtime:
                for group in texts:
                    identity = await case.begin(runtime)
                    starts = [(await case.turn(runtime, identity, text))[0] for text in group]
                    begun.append((identity, [start.provider_turn for start in starts if isinstance(start, TurnStarted)]))
            async with case.opened(model) as runtime:
                found = [(await case.resume(runtime, identity)).turns for identity, _ in begun]
        assert [[turn.provider_turn for turn in turns] for turns in found] == [turns for _, turns in begun]
        digests = [[sha256(text.encode()).hexdigest() for text in group] for group in texts]
        assert [[turn.text_digest for turn in turns] for turns in found] == digests

    async def test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted(self, case: Case) -> None:
        """Killed while a command runs, the call stays in the history and gets an output that says so; nothing is run again.

        A call without an output is refused by some APIs, and one that seems to have worked misleads the model.
        """
        command = "echo once >> ran.txt; echo begun; sleep 974"
        rules = (say("ok", match=Match(last_user_contains="next")), case.shell("c9", command, Match(last_user_contains="run")))
        async with case.server(*rules) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                with pytest.raises(ProviderGoneError):
                    await killed_in_the_command(case, runtime, identity)
            kill(descendants())  # the command outlives the program here; in a sandbox it ends with it
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                await case.turn(runtime, identity, "next")
            [output] = [item for item in told(model) if isinstance(item, ToolOutput)]
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.INTERRUPTED]
        assert output.call_id == "c9"
        assert self.cut_output in output.output, f"{declaration(self, 'cut_output')}, and the model reads {output.output!r}"
        assert (case.work / "ran.txt").read_text() == "once\n"


async def killed_in_the_command(case: Case, runtime: ProviderRuntime, identity: str) -> None:
    """Run a turn and kill the program once its command runs and the files of the conversation hold the call."""

    def begun() -> bool:
        return (case.work / "ran.txt").exists() and all('"c9"' in path.read_text() for path in case.captured())

    with anyio.fail_after(case.limit_s):
        async with runtime.turn(provider_identity(identity), "run") as events:
            async for event in events:
                if isinstance(event, CommandStarted):
                    while not begun():  # noqa: ASYNC110 - a file tells nobody
                        await anyio.sleep(POLL_S)
                    await case.kill()


def files(root: Path) -> list[Path]:
    """Return all files below a directory."""
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


__all__ = ["HOSTILE_WORDS", "TEXTS", "ProviderResume"]
