"""A plugin says which version of the interface it was built for, and is loaded or refused by that, with both versions named (PLUG-1).

Each is a wheel, installed by pip and found by its entry point.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from jamcore import api
from jamcore.domain import plugins as interface
from jamcore.domain.plugins import PluginIncompatibleError, PluginReport
from jamcore.engines.registry import GROUP, EngineRegistry
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import PROVIDERS, ProviderManager
from jamcore.testing.wheels import build_wheel, entry_points, install_wheels

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLUG-1", "CAP-6")]

PROVIDER = """
from jamcore.testing.doubles import providers as doubles

class Plugin(doubles.GoodProvider):
    api_version = {version}
    description = doubles.GOOD.model_copy(update={{"name": "{name}"}})
"""
BUILT_FOR = {"first": (1, 0), "second": (1, 1), "next_major": (2, 0)}
IMPORTED = "import pathlib\npathlib.Path(__file__).with_suffix('.imported').touch()\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with everything installed: providers for three versions, and distributions that require something of Jam."""
    made = tmp_path_factory.mktemp("wheels")
    modules = {f"jamver_{name}": PROVIDER.format(name=name, version=version) for name, version in BUILT_FOR.items()}
    engines = {f"jamver_engine_{name}": _engine(name, version) for name, version in BUILT_FOR.items()}
    wheels = (
        _wheel(made, "jamver-agents", PROVIDERS, modules, requires=("jamcore>=0.1,<1", "jamcore>=99; extra == 'later'")),
        _wheel(made, "jamver-engines", GROUP, engines),
        _wheel(made, "jamver-later", PROVIDERS, {"jamver_later": IMPORTED}, requires=("jamcore>=99,<100",)),
        _wheel(made, "jamver-later-engine", GROUP, {"jamver_engine_later": IMPORTED}, requires=("JamCore >=99",)),
        _wheel(made, "jamver-family", FAMILIES, {"jamver_family": IMPORTED}, requires=("jamcore<0.0.1",)),
        _wheel(made, "jamver-names", PROVIDERS, {"jamver_names": "from jamcore.api import SomethingNewer as Plugin"}),
        _wheel(made, "jamver-copies", PROVIDERS, {"jamver_copies": "from jamcore.api import API_VERSION\n" + _copying()}),
    )
    target = made / "site"
    install_wheels(target, *wheels)
    return target


@pytest.fixture
def found(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[metadata.EntryPoint]:
    """The entry points of all, and their modules on the import path."""
    monkeypatch.syspath_prepend(str(site))
    return entry_points(site)


@pytest.mark.parametrize(
    ("core", "loaded"),
    [((1, 0), {"first"}), ((1, 1), {"first", "second"}), ((1, 7), {"first", "second"}), ((2, 0), {"next_major"})],
    ids=["1.0", "1.1", "1.7", "2.0"],
)
async def test_an_older_minor_is_loaded_and_a_newer_one_or_another_major_is_refused(
    found: list[metadata.EntryPoint], monkeypatch: pytest.MonkeyPatch, core: tuple[int, int], loaded: set[str]
) -> None:
    """Providers and engines alike; who is refused is told which version it was built for and which this core has."""
    monkeypatch.setattr(interface, "API_VERSION", core)
    for reports in (await _providers(found), await _engines(found)):
        assert {name for name in BUILT_FOR if reports[name].state == "loaded"} == loaded
        for name, built_for in BUILT_FOR.items():
            report = reports[name]
            assert report.built_for == built_for
            if report.state != "loaded":
                words = f"built for plugin interface {built_for[0]}.{built_for[1]}, and this core has {core[0]}.{core[1]}"
                assert (report.state, report.violations) == ("incompatible", (words,))
                assert "upgrade Jam" in report.finding().hint


async def test_what_its_distribution_requires_is_asked_before_it_is_imported(found: list[metadata.EntryPoint], site: Path) -> None:
    """It would fail at some import of something newer, which says nothing; the two versions do. An extra's requirement is no matter."""
    here = metadata.version("jamcore")
    provider, engine = (await _providers(found))["later"], (await _engines(found))["later"]
    assert (provider.state, engine.state) == ("incompatible", "incompatible")
    manager = ProviderManager()
    await manager.load(found=[entry for entry in found if entry.group == FAMILIES], tables={"mine": {"family": "family"}})
    assert (manager.report("mine").state, manager.report("mine").distribution) == ("incompatible", "jamver-family")
    assert manager.report("mine").violations == (f"requires jamcore <0.0.1, and this is jamcore {here}",)
    assert not list(site.glob("*.imported"))
    assert provider.violations == (f"requires jamcore <100,>=99, and this is jamcore {here}",)
    assert engine.violations == (f"requires jamcore >=99, and this is jamcore {here}",)
    assert (await _providers(found))["first"].requires == "<1,>=0.1"


async def test_a_name_that_the_interface_lacks_is_told_as_that(found: list[metadata.EntryPoint]) -> None:
    """The import says which name; Jam adds what that is likely to mean."""
    report = (await _providers(found))["names"]
    assert report.state == "broken"
    (problem,) = report.violations
    assert "cannot import name 'SomethingNewer'" in problem
    assert problem.endswith("jamcore.api 1.0 has no such name, a newer one may")


async def test_a_plugin_cannot_say_whatever_the_core_has(found: list[metadata.EntryPoint]) -> None:
    """It was built for one version: one that copies the core's would never be refused, and fail in the middle of something."""
    assert api.API_VERSION is interface.API_VERSION
    report = (await _providers(found))["copies"]
    assert report.violations == ("its api_version is the core's own API_VERSION: write the numbers, (1, 0)",)


async def test_asking_for_it_is_refused_with_the_reason(found: list[metadata.EntryPoint]) -> None:
    """Rooms of a provider that is not for this Jam are told that, not that there is no such provider."""
    manager = ProviderManager()
    await manager.load(found=found)
    with pytest.raises(PluginIncompatibleError) as refused:
        manager.provider("next_major")
    assert refused.value.code == "plugin.incompatible"
    assert "2.0" in refused.value.problem
    assert "1.0" in refused.value.problem
    assert "next_major" not in manager.names()


def _wheel(directory: Path, name: str, group: str, modules: dict[str, str], *, requires: tuple[str, ...] = ()) -> Path:
    prefix = "jamver_engine_" if group == GROUP else "jamver_"
    plugins = {module.removeprefix(prefix): f"{module}:Plugin" for module in modules}
    return build_wheel(directory, name, "3.1", modules=modules, entries={group: plugins}, requires=requires)


def _engine(name: str, version: tuple[int, int]) -> str:
    return (
        "from jamcore.engines.local import LocalEnginePlugin\n\n"
        f"class Plugin(LocalEnginePlugin):\n    name = {name!r}\n    api_version = {version}\n"
    )


def _copying() -> str:
    return PROVIDER.format(name="copies", version="API_VERSION")


async def _providers(found: list[metadata.EntryPoint]) -> dict[str, PluginReport]:
    manager = ProviderManager()
    await manager.load(found=found)
    return {report.name: report for report in manager.reports()}


async def _engines(found: list[metadata.EntryPoint]) -> dict[str, PluginReport]:
    registry = EngineRegistry()
    await registry.load(found=[entry for entry in found if entry.group == GROUP])
    return {report.name: report for report in registry.reports()}
