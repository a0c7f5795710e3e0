"""Where the tests of a provider have its program from: the pinned one, installed once, or what its author is changing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from jamcore.domain.plan import TOOLS_ROOT
from jamcore.testing.doubles.providers import GoodProvider
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Call
from jamcore.testing.toolchains import KEPT_INSTALLATIONS, TOOLS_VARIABLE, forget_older

UNDER_TEST = ProviderUnderTest(
    name="good",
    package="good",
    plugin=GoodProvider,
    toolchain=None,
    server=ChatServer,
    model="m",
    shell=lambda call_id, command: Call(name="run", arguments={"command": command}, call_id=call_id),
    write=lambda call_id, _work, name, content: Call(name="write", arguments={name: content}, call_id=call_id),
    unknown="unknown",
)


def test_an_author_tries_a_directory_without_pinning_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used as the tools root while the variable names it; one that is not there is missed by name."""
    assert UNDER_TEST.tools == Path(TOOLS_ROOT, "good")
    monkeypatch.setenv(TOOLS_VARIABLE, str(tmp_path))
    assert (UNDER_TEST.tools, UNDER_TEST.missing()) == (tmp_path, None)
    monkeypatch.setenv(TOOLS_VARIABLE, str(tmp_path / "absent"))
    assert UNDER_TEST.missing() == f"{TOOLS_VARIABLE} names no directory: {tmp_path / 'absent'}"
    assert replace(UNDER_TEST, toolchain=None).needs()["good"]() is not None


def test_of_a_program_the_installations_that_were_used_last_are_kept(tmp_path: Path) -> None:
    """The older ones of the same program go, whatever their version; those of another, and the locks, stay."""
    own = [f"agent-1.{number}.0-{number:016x}" for number in range(KEPT_INSTALLATIONS + 2)]
    others = ["agent-more-1.0-0000000000000000", "agent-1.0.0-notes"]
    for age, name in enumerate([*own, *others]):
        (tmp_path / name / "program").mkdir(parents=True)
        os.utime(tmp_path / name, (age, age))
    (tmp_path / f"{own[0]}.lock").touch()
    forget_older(tmp_path, "agent")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*own[-KEPT_INSTALLATIONS:], *others, f"{own[0]}.lock"])
