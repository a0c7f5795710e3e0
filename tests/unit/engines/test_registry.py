"""Engine plugins come by entry point from real distributions; one that is broken is reported by name and the rest go on (PLUG-1)."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from jamcore.domain.plugins import blocked_by_setting
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.registry import GROUP, EngineRegistry

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

ODD = "from jamcore.engines.bubblewrap import BubblewrapEnginePlugin as Real\n\nclass Engine(Real):\n    name = '{name}'\n    {body}\n"
MODULES = {
    "imports": ("import a_module_that_nobody_has", "raised ModuleNotFoundError"),
    "exits": ("raise SystemExit(3)", "raised SystemExit: 3"),
    "hangs": ("import threading\nthreading.Event().wait()", "importing it took longer than"),
    "newer": (ODD.format(name="newer", body="api_version = (99, 0)"), "built for plugin interface 99.0, and this core has 1.0"),
    "unversioned": (ODD.format(name="unversioned", body="api_version = '1.0'"), "has no api_version"),
    "abilities": (ODD.format(name="abilities", body="abilities = ['freeze']"), "no frozen set of abilities"),
    "isolation": (ODD.format(name="isolation", body="isolation = 9"), "no isolation class"),
    "closed": (ODD.format(name="closed", body="open = None"), "cannot be called"),
    "other": (ODD.format(name="liar", body="pass"), "calls itself 'liar'"),
    "raising": ("class Engine:\n    def __getattr__(self, name):\n        raise RuntimeError('odd')", "raised RuntimeError: odd"),
}
FINE = ODD.format(name="fine", body="pass")


def install(site: Path, distribution: str, modules: dict[str, str]) -> None:
    """Write a distribution as an installer would."""
    package = distribution.replace("-", "_")
    (site / package).mkdir()
    (site / package / "__init__.py").write_text("")
    for name, text in modules.items():
        (site / package / f"{name}.py").write_text(text)
    info = site / f"{package}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n")
    lines = [f"{name} = {package}.{name}:Engine" for name in modules]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "\n".join(lines) + "\n")


def found(site: Path) -> list[EntryPoint]:
    """Return the entry points of the distributions there."""
    return [entry for each in metadata.distributions(path=[str(site)]) for entry in each.entry_points]


@pytest.mark.guarantee("ENG-2", "PLUG-1")
async def test_a_broken_engine_is_reported_and_the_rest_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an author did wrong ends with that plugin, named with its distribution and version."""
    install(tmp_path, "odd-engines", {name: text for name, (text, _) in MODULES.items()} | {"fine": FINE})
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = EngineRegistry(import_limit_s=5.0)
    await registry.load(found=found(tmp_path))
    assert set(registry.plugins()) == {"fine"}
    reports = {report.name: report for report in registry.reports()}
    assert reports.pop("fine").state == "loaded"
    assert set(reports) == set(MODULES)
    for name, report in reports.items():
        state = "incompatible" if name == "newer" else "broken"
        assert (report.state, report.distribution, report.version) == (state, "odd-engines", "2.0")
        assert MODULES[name][1] in "; ".join(report.violations), report


@pytest.mark.guarantee("PLUG-1")
async def test_a_name_claimed_twice_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one is meant cannot be known: both are named, neither is imported."""
    for distribution in ("twice-one", "twice-two"):
        install(tmp_path, distribution, {"twice": "raise SystemError('imported')"})
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = EngineRegistry()
    await registry.load(found=found(tmp_path))
    assert not registry.plugins()
    for report in registry.reports():
        assert "twice-one 2.0" in report.violations[0]
        assert "twice-two 2.0" in report.violations[0]


@pytest.mark.guarantee("PLUG-1")
async def test_a_blocked_engine_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as blocked, and its module never runs."""
    install(tmp_path, "unwanted-engine", {"unwanted": f"open({str(tmp_path / 'ran')!r}, 'w')"})
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = EngineRegistry()
    await registry.load(found=found(tmp_path), blocked=blocked_by_setting({"unwanted"}))
    assert [report.state for report in registry.reports()] == ["blocked"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.guarantee("ENG-2")
async def test_the_built_in_engine_comes_through_the_same_door() -> None:
    """It is found as anybody's would be."""
    registry = EngineRegistry()
    await registry.load()
    assert isinstance(registry.plugins()["bubblewrap"], BubblewrapEnginePlugin)
