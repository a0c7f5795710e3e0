"""The probes for what a machine has answer truthfully."""

from __future__ import annotations

import os
from dataclasses import dataclass

import anyio.lowlevel
import pytest

from jamcore.domain.providers import CredentialSpec
from jamcore.domain.sandboxes import Isolation
from jamcore.testing import live_rooms
from jamcore.testing.needs import Needs, probe_git, probe_root


def test_git_is_missing_where_the_path_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    """An empty search path has no git, and the reason says so."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert probe_git() == "no program git on the path"


def test_root_is_the_effective_user() -> None:
    """The probe agrees with the process."""
    assert (probe_root() is None) == (os.geteuid() == 0)


def test_a_need_is_probed_once() -> None:
    """Probes may take seconds, so their answers are kept for the run."""
    calls: list[int] = []
    needs = Needs({"slow": lambda: calls.append(1)})
    assert [needs.missing("slow"), needs.missing("slow"), len(calls)] == [None, None, 1]


@dataclass(frozen=True)
class Engine:
    """What a need looks at."""

    name: str
    isolation: Isolation
    abilities: frozenset[str] = frozenset()


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines are installed, of which one isolates; no variable of live tests is set."""
    for name in ("JAM_LIVE_ENGINE", "JAM_LIVE_ENDPOINT", "JAM_LIVE_MOON"):
        monkeypatch.delenv(name, raising=False)

    async def installed() -> dict[str, Engine]:
        await anyio.lowlevel.checkpoint()
        found = (Engine("rocket", Isolation.MICROVM, frozenset({"reach"})), Engine("open", Isolation.NONE, frozenset({"clone"})))
        return {engine.name: engine for engine in found}

    monkeypatch.setattr(live_rooms, "engines", installed)


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize(
    ("chosen", "need", "reason"),
    [
        ("", "engine:any", None),
        ("", "engine:reach", None),
        ("", "engine:clone", "the engine of this run (rocket) does not have clone"),
        ("open", "engine:clone", None),
        ("open", "engine:reach", "the engine of this run (open) does not have reach"),
        ("boat", "engine:any", "no engine boat is installed; installed: open, rocket"),
    ],
)
def test_an_engine_is_there_with_an_ability(monkeypatch: pytest.MonkeyPatch, chosen: str, need: str, reason: str | None) -> None:
    """The one that the environment names; otherwise any that isolates, never one that does not."""
    monkeypatch.setenv("JAM_LIVE_ENGINE", chosen)
    assert Needs({}).missing(need) == reason


@pytest.mark.usefixtures("engines")
def test_an_account_is_a_variable_or_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the variables that the provider's plugin names; an endpoint that stands in for the real one needs none."""
    spec = CredentialSpec(
        name="moon", environment_names=("MOON_KEY", "SUN_KEY"), header="x", prefix="", origin="https://moon.invalid"
    )

    async def credential(_: str) -> CredentialSpec:
        await anyio.lowlevel.checkpoint()
        return spec

    monkeypatch.setattr(live_rooms, "_credential", credential)
    monkeypatch.delenv("MOON_KEY", raising=False)
    monkeypatch.delenv("SUN_KEY", raising=False)
    assert Needs({}).missing("account:moon") == "the environment has no MOON_KEY or SUN_KEY"
    monkeypatch.setenv("SUN_KEY", "sk")
    assert Needs({}).missing("account:moon") is None
    monkeypatch.delenv("SUN_KEY")
    monkeypatch.setenv("JAM_LIVE_ENDPOINT", "http://127.0.0.1:9")
    assert Needs({}).missing("account:moon") is None


@pytest.mark.usefixtures("engines")
def test_a_variable_says_what_nobody_can_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent and empty are the same."""
    assert Needs({}).missing("variable:JAM_LIVE_MOON") == "the environment has no JAM_LIVE_MOON"
    monkeypatch.setenv("JAM_LIVE_MOON", "full")
    assert Needs({}).missing("variable:JAM_LIVE_MOON") is None


def test_a_provider_that_is_not_installed_is_named() -> None:
    """Its program cannot be had then, and the reason says whose plugin is missing; a kind that nobody knows is an error."""
    assert Needs({}).missing("provider:nobody") == "the provider plugin nobody is not installed"
    with pytest.raises(LookupError, match="unknown need 'moon:nobody'"):
        Needs({}).missing("moon:nobody")
