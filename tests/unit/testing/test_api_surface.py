"""Which version of the plugin interface a change needs (PLUG-1)."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from jamcore.testing.api_surface import RELEASED, SNAPSHOT, Surface, complaint, current, main

BEFORE = {
    "Answer": ": class",
    "Answer.accepted": ": bool",
    "PlanContext": ": class",
    "PlanContext.home": ": str",
    "Runtime": ": protocol",
    "Runtime.close": "() -> None, asynchronous",
    "Kind": ": class",
    "Kind.ONE": " = 'one'",
    "GuestLauncher": ": protocol",
    "helper": "(limit: int = 3) -> str",
    "hook jam_prepare": " -> Preparation",
    "hook jam_prepare.context": ": PlanContext",
}
MAJOR, MINOR, NONE = (2, 0), (1, 4), (1, 3)


def surface(version: tuple[int, int] | None, lines: dict[str, str]) -> Surface:
    return Surface(version, MappingProxyType(lines))


CHANGES: tuple[tuple[str, dict[str, str], tuple[str, ...], tuple[int, int]], ...] = (
    ("nothing", {}, (), NONE),
    ("a name", {"Newer": ": class", "Newer.field": ": str"}, (), MINOR),
    ("a value", {"Kind.TWO": " = 'two'"}, (), MINOR),
    ("a field with a default", {"Answer.reason": ": str = ''"}, (), MINOR),
    ("a field of what plugins get", {"PlanContext.user": ": str"}, (), MINOR),
    ("a method of what plugins get", {"GuestLauncher.stop": "() -> None"}, (), MINOR),
    ("an argument of a hook", {"hook jam_prepare.reason": ": str"}, (), MINOR),
    ("a hook", {"hook jam_new": " -> None"}, (), MINOR),
    ("a field that authors must give", {"Answer.reason": ": str"}, (), MAJOR),
    ("a method that authors must have", {"Runtime.pause": "() -> None"}, (), MAJOR),
    ("another signature", {"helper": "(limit: int) -> str"}, (), MAJOR),
    ("another answer of a hook", {"hook jam_prepare": " -> None"}, (), MAJOR),
    ("a name less", {}, ("helper",), MAJOR),
    ("an argument of a hook less", {}, ("hook jam_prepare.context",), MAJOR),
    ("a name more and one less", {"Newer": ": class"}, ("Kind.ONE",), MAJOR),
)


@pytest.mark.guarantee("PLUG-1")
@pytest.mark.parametrize(("new", "gone", "least"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_change_needs_a_version(new: dict[str, str], gone: tuple[str, ...], least: tuple[int, int]) -> None:
    """Below it the complaint names what changed and the version; from it on there is none."""
    released = surface((1, 3), BEFORE)
    lines = {name: form for name, form in (BEFORE | new).items() if name not in gone}
    assert complaint(released, surface(least, lines)) is None
    assert complaint(released, surface((3, 0), lines)) is None
    if least == NONE:
        return
    below = {MAJOR: (1, 9), MINOR: (1, 3)}[least]
    said = complaint(released, surface(below, lines))
    assert said is not None
    assert str(least) in said
    named = (*gone, *new) if least == MAJOR and not (new and gone) else gone or tuple(new)
    assert all(name in said for name in named)


def test_before_the_first_release_the_interface_may_change_freely() -> None:
    """Nobody has built a plugin for it."""
    assert complaint(surface(None, {}), surface((1, 0), BEFORE)) is None


def test_a_snapshot_is_read_back_as_it_was() -> None:
    """The one of the real interface too, with all that has arguments, defaults and annotations."""
    for each in (current(), surface((1, 3), BEFORE), surface(None, {})):
        assert Surface.read(each.text()) == each


def test_the_real_interface_is_told_whole() -> None:
    """Fields with defaults, methods that are asynchronous, errors with their codes, values, unions, functions and hooks."""
    lines = current().lines
    assert lines["ProviderDescription.approvals"] == ": bool = False"
    assert lines["ProviderRuntime.interrupt"] == "(identity: ProviderIdentity) -> None, asynchronous"
    assert lines["ProviderRuntime.version"] == " -> str"
    assert lines["EnginePlugin.api_version"] == ": tuple[int, int]"
    assert lines["ProviderGoneError.code"] == " = 'provider.gone'"
    assert lines["Placement.SHARED"] == " = 'shared'"
    assert lines["ProviderEvent.TurnEnded"] == ""
    assert lines["provider_identity"] == "(text: str) -> ProviderIdentity"
    assert lines["hook jam_open_runtime.launcher"] == ": GuestLauncher"
    assert not [name for name in lines if "._" in name and not name.endswith(".__init__")]


def test_the_snapshots_are_written_by_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current one at each change that is meant, the released one with a release."""
    (tmp_path / "jamcore").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / SNAPSHOT).parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert not (tmp_path / RELEASED).exists()
    assert Surface.read((tmp_path / SNAPSHOT).read_text()) == current()
    assert main(["--release"]) == 0
    assert (tmp_path / RELEASED).read_text() == (tmp_path / SNAPSHOT).read_text()
