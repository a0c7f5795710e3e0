"""Agents by configuration alone: what a table may say, what is wrong with a bad one, and a real agent that nobody wrote code for."""

from __future__ import annotations

import re
import shutil
import signal
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest

from jam_acp.family import FAMILY, AcpFamily
from jam_acp.places import Places
from jam_acp.profile import Profile, profile_of
from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    ApprovalAnswer,
    ApprovalPolicy,
    ApprovalRequested,
    CommandFinished,
    InvalidInputError,
    ProviderFamily,
    ProviderGoneError,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.history import contains_in_order, conversation, said_in
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text, say
from jamcore.testing.toolchains import pinned_toolchain

EXAMPLE = Path(__file__).parents[1] / "examples" / "codex-acp.toml"
NAME = "codex_acp"
LIMIT_S = 60.0

SCRIPT = Script(
    rules=(
        say("answer-4", match=Match(last_user_contains="fourth")),
        Rule(match=Match(last_user_contains="third"), answer=(Text(deltas=("half ", "never"), hold=Hold(gate="never", after=1)),)),
        Rule(
            match=Match(last_user_contains="first", last_is_tool_output=False),
            answer=(Call(name="exec_command", arguments={"cmd": "echo tool-4411 > made.txt; cat made.txt"}, call_id="c1"),),
        ),
        say("answer-1", match=Match(last_user_contains="first")),
        say("answer-2", match=Match(last_user_contains="second")),
    )
)


def table() -> dict[str, Any]:
    """Return the example's table, as Jam's settings hand it to the family."""
    read: dict[str, Any] = tomllib.loads(EXAMPLE.read_text())["providers"][NAME]
    assert read.pop("family") == FAMILY
    return read


def example() -> Profile:
    """Return the example's profile."""
    return profile_of(NAME, table())


def test_the_family_makes_a_plugin_of_a_table() -> None:
    """The provider has the table's name, and what the table does not say has a careful default."""
    family: ProviderFamily = AcpFamily()
    assert family.jam_family() == FAMILY
    plugin = AcpFamily().provider("small", {"argv": ["small-agent"]})
    description = plugin.jam_describe_provider()
    assert (description.name, description.title) == ("small", "small")
    assert description.cells == DEDICATED_MANAGED_CELLS
    assert not description.continuity
    assert not hasattr(plugin, "jam_declare_capture")
    whole = AcpFamily().provider(NAME, table()).jam_describe_provider()
    assert whole.continuity
    assert whole.toolchain is not None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"argv": None}, "argv"),
        ({"argv": []}, "argv"),
        ({"argv": "agent"}, "argv"),
        ({"argvv": ["agent"]}, "argvv"),
        ({"name": "other"}, "name"),
        ({"cells": "all"}, "cells"),
        ({"resume": "none"}, "(the whole table)"),
        ({"capture": None}, "(the whole table)"),
        ({"environment": {"A": 7}}, "environment.0.1"),
        ({"authentication": "when-refused"}, "(the whole table)"),
        ({"toolchain": {"version": "1"}}, "toolchain.distribution"),
        ({"capture": {"entries": [{"pattern": "x", "kind": "odd"}]}}, "capture.entries.0.kind"),
        ({"seats": 0}, "seats"),
        ({"guard": "> "}, "guard"),
        ({"resume": "resume"}, "resume"),
        ({"move": ["mv"]}, "(the whole table)"),
        ({"argv": ["{tools_rot}/agent"]}, "argv"),
        ({"environment": {"A": "{nosuch}"}}, "environment"),
        ({"model_value": "x/{modell}"}, "model_value"),
        ({"model_value": "{home}/{model}"}, "model_value"),
        ({"argv": ["sh", "-c", "exec agent {identity}"]}, "argv"),
        ({"environment": {"A": "{identity}"}}, "environment"),
        ({"version_argv": ["agent", "{cwd}"]}, "version_argv"),
        ({"prepared": [{"path": "a", "content": "the model is {model}"}]}, "prepared"),
        ({"keeps_cwd": True, "move": ["mv", "{model}"]}, "move"),
        ({"change_keys": {"path": "where"}}, "change_keys.0.1"),
        ({"since": date(2026, 1, 1)}, "(the whole table)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_bad_table_says_which_key_is_wrong(change: Mapping[str, object], field: str) -> None:
    """The first thing that is unknown, missing or wrong is named as the key that a person wrote."""
    changed = {key: value for key, value in {**table(), **change}.items() if value is not None}
    with pytest.raises(InvalidInputError) as caught:
        profile_of(NAME, changed)
    assert caught.value.field == field
    assert caught.value.problem


def test_the_readme_names_every_key() -> None:
    """Whoever writes a table finds them all where it is explained."""
    (table_of_keys,) = re.findall(
        r"^\| keys \|.*\n(?:\|.*\n)+", (Path(__file__).parents[1] / "README.md").read_text(), re.MULTILINE
    )
    named = [name for row in table_of_keys.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(Profile.model_fields.keys() - {"name"})


def test_braces_of_a_script_are_its_own() -> None:
    """A shell's variables, and what a text of several words has in braces, are no places that are misspelt."""
    argv = ["sh", "-c", "exec agent | awk '{print}'", "${shell}", "exec agent ${identity} ${home}"]
    assert profile_of("small", {"argv": argv}).argv == tuple(argv)
    assert Places("", "", "/h", "").fill(argv[-1]) == argv[-1]


async def killed_at(words: str, runtime: ProviderRuntime, identity: ProviderIdentity, guest: LocalGuest) -> None:
    """Run the third turn, and kill the program with SIGKILL when it says these words."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(identity, "third") as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text == words:
                    await guest.processes[-1].signal(signal.SIGKILL)


OpenProfile = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]


@pytest.mark.needs("codex_acp")
@pytest.mark.anyio
@pytest.mark.unprivileged
@pytest.mark.slow
class TestCodexAcp:
    """A real agent of the registry by the example alone."""

    async def test_it_runs_is_killed_and_comes_back_exactly(self, guest: LocalGuest, open_profile: OpenProfile) -> None:
        """A turn with a tool, a kill in the middle of an answer, and the same session with all that was said, from the captured files."""
        profile = example()
        assert profile.toolchain is not None
        tools = pinned_toolchain(profile.toolchain)
        request = ThreadRequest(cwd=str(guest.work), model="mock-model")
        async with ResponsesServer(SCRIPT) as model:
            async with open_profile(profile, guest, model.base_url, tools, "0.16.0") as runtime:
                identity = provider_identity((await runtime.open_thread(request)).identity)
                first = await run_turn(runtime, identity, "first")
                assert first[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
                [command] = [event for event in first if isinstance(event, CommandFinished)]
                assert (command.output, command.exit_code) == ("tool-4411\n", 0)
                await run_turn(runtime, identity, "second")
                with pytest.raises(ProviderGoneError):
                    await killed_at("half ", runtime, identity, guest)
            before = conversation(model.model_requests[-1].body)
            for path in guest.state.iterdir():  # all but what is captured
                if path.name != "sessions":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.rmtree(guest.home)
            guest.home.mkdir()
            async with open_profile(profile, guest, model.base_url, tools, "0.16.0") as runtime:
                again = await runtime.resume_thread(identity, request)
                assert (await run_turn(runtime, identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
            after = model.model_requests[-1].body
        assert again.identity == identity
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED]
        assert contains_in_order(before, conversation(after)) is None
        assert said_in(after) == ["first", "second", "third", "fourth"]
        assert (guest.work / "made.txt").read_text() == "tool-4411\n"
        assert {request.path for request in model.requests} == {"/v1/responses"}

    @pytest.mark.parametrize(("answer", "made"), [(ApprovalAnswer.ALLOW, True), (ApprovalAnswer.DENY, False)])
    async def test_a_command_is_asked_about(
        self, guest: LocalGuest, open_profile: OpenProfile, answer: ApprovalAnswer, *, made: bool
    ) -> None:
        """The question is found by its kind, whatever the agent calls its options."""
        profile = example()
        assert profile.toolchain is not None
        request = ThreadRequest(cwd=str(guest.work), model="mock-model", approvals=ApprovalPolicy.ASK)
        async with (
            ResponsesServer(SCRIPT) as model,
            open_profile(profile, guest, model.base_url, pinned_toolchain(profile.toolchain)) as runtime,
        ):
            identity = provider_identity((await runtime.open_thread(request)).identity)
            asked = []
            with anyio.fail_after(LIMIT_S):
                async with runtime.turn(identity, "first") as events:
                    async for event in events:
                        if isinstance(event, ApprovalRequested):
                            asked.append(event.subject)
                            await runtime.answer(identity, event.request, answer)
        assert asked == ["command"]
        assert (guest.work / "made.txt").exists() is made

    async def test_an_unknown_session_is_refused(self, guest: LocalGuest, open_profile: OpenProfile) -> None:
        """And no other is begun."""
        profile = example()
        assert profile.toolchain is not None
        async with open_profile(profile, guest, "http://127.0.0.1:9", pinned_toolchain(profile.toolchain)) as runtime:
            with pytest.raises(ProviderRefusedError):
                await runtime.resume_thread(
                    provider_identity("01a22bef-2a21-7de2-936b-6a85bdb071fc"), ThreadRequest(cwd=str(guest.work))
                )
        assert not list(guest.state.glob("sessions/**/rollout-*"))
