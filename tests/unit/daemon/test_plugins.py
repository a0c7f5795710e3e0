"""A person sees every plugin with what became of it, and blocks those that they do not want (PLUG-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.plugins import WHY_CHARACTERS, Blocks, Plugins
from jamcore.daemon.providers import Providers
from jamcore.domain import layout
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.plugins import (
    BlockedBy,
    BlocksUnreadableError,
    PluginBlockedBySettingError,
    PluginBlockedError,
    PluginKind,
    PluginReport,
    PluginUnknownError,
    PluginView,
)
from jamcore.engines.registry import GROUP, EngineRegistry
from jamcore.plugins.manager import POLICIES, PROVIDERS, ProviderManager
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.wheels import build_wheel, entry_points, install_wheels

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLUG-1")]

MODULES = {
    "jamblock_good": "from jamcore.testing.doubles.providers import GoodProvider as Plugin",
    "jamblock_hooks": "from jamcore.testing.doubles.providers import MisspeltHookProvider as Plugin",
    "jamblock_policy": "from jamcore.testing.doubles.policies import CountingPolicy as Plugin",
    "jamblock_engine": "from jamcore.engines.local import LocalEnginePlugin as Plugin",
}
ENTRIES = {
    PROVIDERS: {"good": "jamblock_good:Plugin", "hooks": "jamblock_hooks:Plugin"},
    POLICIES: {"counts": "jamblock_policy:Plugin"},
    GROUP: {"local": "jamblock_engine:Plugin"},
}


class Started:
    """What a daemon's start makes of the plugins of an app directory."""

    def __init__(self, app: Path, *setting: str) -> None:
        self.blocks = Blocks(app, files=Files(), setting=setting)
        self.manager = ProviderManager()
        self.registry = EngineRegistry()
        self.plugins: Plugins

    async def load(self, site: Path, *, broken: dict[str, str] | None = None) -> Started:
        """Load what is installed there and not blocked."""
        found, blocks = entry_points(site), await self.blocks.all()
        await self.manager.load(found=[entry for entry in found if entry.group != GROUP], blocked=blocks)
        await self.registry.load(found=[entry for entry in found if entry.group == GROUP], blocked=blocks)
        house = EngineHouse({}, preferred=None, reports=self.registry.reports(), broken=broken)
        self.plugins = Plugins(plugins=self.manager, engines=house, blocks=self.blocks, clock=SystemClock())
        return self

    async def view(self, name: str) -> PluginView:
        """Return one plugin as it is listed."""
        (found,) = [view for view in await self.plugins.list() if view.name == name]
        return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distribution that brings one plugin of each kind, and a provider that is broken."""
    made = tmp_path_factory.mktemp("wheels")
    install_wheels(made / "site", build_wheel(made, "jamblock", "4.2", modules=MODULES, entries=ENTRIES, requires=("jamcore>=0",)))
    return made / "site"


@pytest.fixture
def site(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That distribution, on the import path."""
    monkeypatch.syspath_prepend(str(installed))
    return installed


async def test_every_plugin_is_listed_with_where_it_comes_from(tmp_path: Path, site: Path) -> None:
    """Providers, policies and engines: distribution, version, entry point, both versions of the interface, and all that is wrong."""
    views = {view.name: view for view in await (await Started(tmp_path).load(site)).plugins.list()}
    assert {name: (view.kind, view.state) for name, view in views.items()} == {
        "good": (PluginKind.PROVIDER, "loaded"),
        "hooks": (PluginKind.PROVIDER, "broken"),
        "counts": (PluginKind.POLICY, "loaded"),
        "local": (PluginKind.ENGINE, "loaded"),
    }
    for view in views.values():
        assert (view.distribution, view.version, view.requires) == ("jamblock", "4.2", ">=0")
        assert view.entry in {value for named in ENTRIES.values() for value in named.values()}
        assert (view.built_for, view.core) == ("1.0", "1.0")
    assert "jam_contribute_plam" in " ".join(views["hooks"].problems)
    assert "jamblock" in views["hooks"].hint


async def test_a_policy_is_not_listed_as_a_provider(tmp_path: Path, site: Path) -> None:
    """`jam provider ls` is about agents; a policy is none."""
    unused = cast("Any", None)
    started = await Started(tmp_path).load(site)
    providers = Providers(plugins=started.manager, engines=unused, toolchains=unused, gate=unused)
    assert [view.name for view in await providers.list()] == ["good", "hooks"]


async def test_an_engine_that_could_not_be_opened_is_not_called_loaded(tmp_path: Path, site: Path) -> None:
    """Its import went well; it is of no use all the same, and the list agrees with the doctor."""
    view = await (await Started(tmp_path).load(site, broken={"local": "no disk"})).view("local")
    assert (view.state, view.problems) == ("broken", ("no disk",))


@pytest.mark.parametrize("name", ["good", "counts", "local"])
async def test_a_block_counts_from_the_next_start_and_is_undone_by_a_command(tmp_path: Path, site: Path, name: str) -> None:
    """What runs goes on; the next start does not import it and says who wanted that and why; unblocking is the same way back."""
    first = await Started(tmp_path).load(site)
    (said,) = await first.plugins.block(name, "it phones home")
    assert (said.state, said.at_next_start) == ("loaded", "blocked")
    assert said == await first.view(name)

    second = await Started(tmp_path).load(site)
    view = await second.view(name)
    assert (view.state, view.at_next_start, view.built_for) == ("blocked", "", None)
    assert view.block is not None
    assert (view.block.by, view.block.why) == (BlockedBy.COMMAND, "it phones home")
    assert f"jam plugin unblock {name}" in view.hint
    assert not second.manager.names() if name == "good" else second.manager.names() == ("good",)

    (said,) = await second.plugins.unblock(name)
    assert (said.state, said.at_next_start, said.block, said.hint) == ("blocked", "unblocked", None, "")
    third = await Started(tmp_path).load(site)
    assert (await third.view(name)).state == "loaded"


async def test_asking_for_a_blocked_provider_names_what_unblocks_it(tmp_path: Path, site: Path) -> None:
    """By the command that blocked it, or by the setting, which no command changes."""
    await (await Started(tmp_path).load(site)).plugins.block("good", "not here")
    by_command = await Started(tmp_path).load(site)
    with pytest.raises(PluginBlockedError) as refused:
        by_command.manager.provider("good")
    assert (refused.value.unblock, refused.value.why) == ("jam plugin unblock good", "not here")
    by_setting = await Started(tmp_path, "good").load(site)
    with pytest.raises(PluginBlockedError) as refused:
        by_setting.manager.provider("good")
    assert refused.value.unblock == "take good out of the setting blocked_plugins"
    with pytest.raises(PluginBlockedBySettingError):
        await by_setting.plugins.unblock("good")
    assert (await by_command.view("good")).block is not None


async def test_repeating_a_block_or_its_end_changes_nothing(tmp_path: Path, site: Path) -> None:
    """A retry is exact; another reason replaces the first; a private file holds it."""
    started = await Started(tmp_path).load(site)
    first = await started.plugins.block("good", "a")
    assert await started.plugins.block("good", "a") == first
    ((second),) = await started.plugins.block("good", "b")
    assert second.block is not None
    assert second.block.why == "b"
    assert ((tmp_path / layout.BLOCKED_PLUGINS).stat().st_mode & 0o777) == 0o600
    assert await started.plugins.unblock("good") == await started.plugins.unblock("good")


async def test_a_name_that_nothing_has_is_refused_unless_it_is_blocked(tmp_path: Path, site: Path) -> None:
    """A slip of the pen blocks nothing. What was uninstalled stays blocked, is listed, and can be unblocked."""
    started = await Started(tmp_path).load(site)
    for change in (started.plugins.block("goood", ""), started.plugins.unblock("goood")):
        with pytest.raises(PluginUnknownError) as refused:
            await change
        assert refused.value.known == ("counts", "good", "hooks", "local")
    with pytest.raises(InvalidInputError):
        await started.plugins.block("good", "x" * (WHY_CHARACTERS + 1))
    await started.plugins.block("good", "")
    (tmp_path / "empty").mkdir()
    gone = await Started(tmp_path, "never").load(tmp_path / "empty")
    assert [(view.name, view.kind, view.state) for view in await gone.plugins.list()] == [
        ("good", None, "blocked"),
        ("never", None, "blocked"),
    ]
    assert await gone.plugins.unblock("good") == ()


async def test_a_list_that_cannot_be_read_stops_the_start(tmp_path: Path, site: Path) -> None:
    """Nobody knows then what must not be imported; nothing is, and the error names the file."""
    path = tmp_path / layout.BLOCKED_PLUGINS
    path.parent.mkdir()
    path.write_text('{"schema_version": 1, "blocks": [{"plugin": "go')
    with pytest.raises(BlocksUnreadableError) as refused:
        await Started(tmp_path).load(site)
    assert (refused.value.path, refused.value.problem.partition(":")[0]) == (str(path), "Invalid JSON")
    path.write_text('{"schema_version": 1, "blocks": [{"plugin": "good", "by": "nobody"}]}')
    with pytest.raises(BlocksUnreadableError) as refused:
        await Started(tmp_path).load(site)
    assert refused.value.problem.startswith("blocks.0.by: ")
    path.unlink()
    path.mkdir()
    with pytest.raises(BlocksUnreadableError):
        await Started(tmp_path).load(site)


async def test_the_doctor_says_the_same() -> None:
    """One that is blocked is as its owner wants it; one that is incompatible is a gap; what will go is told and is none."""
    report = PluginReport("odd", "odd-dist", "1", "loaded", warnings=("jam_x: say y",))
    assert report.finding().ok
    assert report.finding().detail == "deprecated: jam_x: say y"
    assert not PluginReport("odd", "odd-dist", "1", "incompatible", ("built for 9",)).finding().ok
