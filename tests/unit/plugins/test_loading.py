"""Plugins are found by entry point in real distributions; a broken one disables itself alone (PLUG-1)."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from jamcore.domain.plugins import blocked_by_setting
from jamcore.plugins.manager import POLICIES, PROVIDERS, ProviderManager
from jamcore.system.distributions import installed

pytestmark = pytest.mark.anyio

GOOD = """
from jamcore.domain.providers import ProviderDescription
from jamcore.testing.doubles import providers as doubles

class Plugin(doubles.GoodProvider):
    description = doubles.GOOD.model_copy(update={"name": "%s"})
"""
MODULES = {
    "fine": GOOD % "fine",
    "import_error": "import a_module_that_nobody_has",
    "syntax_error": "def broken(:",
    "exits": "raise SystemExit(3)",
    "base_error": "class Odd(BaseException): ...\nraise Odd('odd')",
    "no_class": "x = 1",
    "needs_argument": "class Plugin:\n    def __init__(self, wanted): ...",
    "other_interface": "from jamcore.testing.doubles.providers import OtherInterfaceProvider as Plugin",
    "misspelt": "from jamcore.testing.doubles.providers import MisspeltHookProvider as Plugin",
    "raising": "from jamcore.testing.doubles.providers import RaisingProvider as Plugin",
    "unwanted": "raise SystemError('a blocked plugin was imported')",
    "twice": GOOD % "twice",
}


def install(directory: Path, distribution: str, entries: dict[str, str], *, group: str = PROVIDERS) -> None:
    """Write a distribution as an installer would: a package, METADATA and entry points."""
    package = distribution.replace("-", "_")
    (directory / package).mkdir(parents=True)
    (directory / package / "__init__.py").write_text("")
    for module in entries.values():
        (directory / package / f"{module}.py").write_text(MODULES[module])
    info = directory / f"{package}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
    lines = [f"{name} = {package}.{module}:Plugin" for name, module in entries.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")


def found(directory: Path) -> list[metadata.EntryPoint]:
    return [entry for dist in metadata.distributions(path=[str(directory)]) for entry in dist.entry_points]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A directory on the import path, with a distribution of every kind; module names are new for each test."""
    tag = f"jamfake{abs(hash(request.node.name)) % 10**8}"
    names = [name for name in MODULES if name != "twice"]
    install(tmp_path, f"{tag}-many", {name: name for name in names})
    install(tmp_path, f"{tag}-one", {"twice": "twice"})
    install(tmp_path, f"{tag}-two", {"twice": "twice"})
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.guarantee("PLUG-1", "CAP-6")
async def test_one_good_plugin_is_loaded_among_many_broken_ones(site: Path) -> None:
    """Each failure is a report that names the distribution and its version; nothing escapes."""
    manager = ProviderManager(hook_limit_s=1)
    await manager.load(found=found(site), blocked=blocked_by_setting({"unwanted"}))
    states = {report.name: report.state for report in manager.reports()}
    assert manager.names() == ("fine",)
    assert states == dict.fromkeys(MODULES, "broken") | {
        "fine": "loaded",
        "unwanted": "blocked",
        "other_interface": "incompatible",
    }
    words = {report.name: " ".join(report.violations) for report in manager.reports()}
    assert "ModuleNotFoundError" in words["import_error"]
    assert "SyntaxError" in words["syntax_error"]
    assert "SystemExit: 3" in words["exits"]
    assert "Odd: odd" in words["base_error"]
    assert "AttributeError" in words["no_class"]
    assert "TypeError" in words["needs_argument"]
    assert "jam_contribute_plam" in words["misspelt"]
    assert all(report.version == "1.5" and report.distribution.startswith("jamfake") for report in manager.reports())
    assert all(str(report.distribution) in report.finding().subject for report in manager.reports())


@pytest.mark.guarantee("PLUG-1")
async def test_a_name_claimed_twice_names_both_and_loads_neither(site: Path) -> None:
    """Which program was meant cannot be known, so none runs."""
    manager = ProviderManager()
    await manager.load(found=[entry for entry in found(site) if entry.name == "twice"])
    assert len(manager.reports()) == 2
    for report in manager.reports():
        assert report.state == "broken"
        assert all(f"-{half} 1.5" in report.violations[0] for half in ("one", "two"))
    assert manager.names() == ()


async def test_one_distribution_seen_twice_is_one(site: Path) -> None:
    """The same entry point on two paths is no conflict."""
    manager = ProviderManager()
    fine = [entry for entry in found(site) if entry.name == "fine"]
    await manager.load(found=fine * 2)
    assert [report.state for report in manager.reports()] == ["loaded"]


@pytest.mark.guarantee("PLUG-1")
async def test_a_blocked_plugin_is_not_imported(site: Path) -> None:
    """Blocking is before importing."""
    manager = ProviderManager()
    await manager.load(found=[entry for entry in found(site) if entry.name == "unwanted"], blocked=blocked_by_setting({"unwanted"}))
    assert manager.report("unwanted").state == "blocked"
    assert not [name for name in sys.modules if name.endswith(".unwanted")]


async def test_a_person_can_still_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyboard interrupt is not a fault of a plugin."""
    monkeypatch.setitem(MODULES, "interrupts", "raise KeyboardInterrupt")
    install(tmp_path, "jamfake-interrupting", {"interrupts": "interrupts"})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        await ProviderManager().load(found=found(tmp_path))


@pytest.mark.guarantee("PLUG-1")
def test_installed_distributions_are_found_by_themselves(tmp_path: Path) -> None:
    """In a new process, with nothing injected: the loader finds the distribution beside one whose metadata is missing."""
    install(tmp_path, "jamfake-real", {"fine": "fine", "exits": "exits"})
    install(tmp_path, "jamfake-damaged", {"no_class": "no_class"})
    (tmp_path / "jamfake_damaged-1.5.dist-info" / "METADATA").unlink()
    code = """
import anyio, json
from jamcore.domain.plugins import blocked_by_setting
from jamcore.plugins.manager import ProviderManager
manager = ProviderManager()
anyio.run(manager.load)
print(json.dumps({r.name: [r.state, r.distribution, r.version] for r in manager.reports()}))
"""
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=60, check=True)
    reports = json.loads(done.stdout)
    assert reports["fine"] == ["loaded", "jamfake-real", "1.5"]
    assert reports["exits"] == ["broken", "jamfake-real", "1.5"]


def test_unreadable_metadata_of_one_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution whose entry points are no text is passed over."""
    install(tmp_path, "jamfake-seen", {"fine": "fine"})
    install(tmp_path, "jamfake-unseen", {"exits": "exits"})
    (tmp_path / "jamfake_unseen-1.5.dist-info" / "entry_points.txt").write_bytes(b"[jam.providers]\n\xff\xfe = x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {entry.value.partition(".")[0] for entry in installed((PROVIDERS,))}
    assert "jamfake_seen" in names
    assert "jamfake_unseen" not in names


@pytest.mark.guarantee("PLUG-1")
def test_a_plugin_that_hangs_does_not_hold_the_process(tmp_path: Path) -> None:
    """A process that loaded a hanging plugin still ends."""
    code = """
import anyio
from jamcore.domain.plugins import blocked_by_setting
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.doubles.providers import HangingProvider
print(anyio.run(ProviderManager(hook_limit_s=0.1).add, "good", HangingProvider()).state)
"""
    env = {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=60, check=True, cwd=tmp_path)
    assert done.stdout.strip() == b"broken"


async def test_policies_are_loaded_from_their_own_group(site: Path) -> None:
    """A policy is found by entry point too, and is in no table."""
    entries = [entry for entry in found(site) if entry.name == "fine"]
    policy = metadata.EntryPoint("counting", "jamcore.testing.doubles.policies:CountingPolicy", POLICIES)
    manager = ProviderManager()
    await manager.load(found=[*entries, policy])
    assert {report.name: report.state for report in manager.reports()} == {"counting": "loaded", "fine": "loaded"}
    assert manager.table().providers() == ("fine",)
