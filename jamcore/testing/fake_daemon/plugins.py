"""The fake's plugins: one that is loaded, one that uses what will go, and one of each kind of trouble."""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from jamcore.domain.plugins import (
    Block,
    BlockedBy,
    PluginBlockedBySettingError,
    PluginKind,
    PluginReport,
    PluginUnknownError,
    PluginView,
)
from jamcore.testing.fake_daemon.records import AT
from jamcore.testing.fake_daemon.state import Part

_REPORTS = (
    PluginReport("codex", "jam-codex", "0.1.0", "loaded", entry="jam_codex:Plugin", requires=">=0.1,<1", built_for=(1, 0)),
    PluginReport("older", "jam-older", "0.9", "loaded", entry="jam_older:Plugin", built_for=(1, 0), warnings=("jam_x: say y",)),
    PluginReport("broken", "jam-broken", "1", "broken", ("no module named x", "lacks \x1b[2J"), entry="jam_broken:Plugin"),
    PluginReport(
        "newer",
        "jam-newer",
        "9",
        "incompatible",
        ("built for plugin interface 9.0, and this core has 1.0",),
        kind=PluginKind.ENGINE,
        entry="jam_newer:Engine",
        built_for=(9, 0),
    ),
)
_SETTING = Block(plugin="unwanted", by=BlockedBy.SETTING)


class FakePlugins(Part):
    async def list(self) -> tuple[PluginView, ...]:
        await self.fake.note("plugins")
        return self._views()

    async def block(self, name: str, why: str) -> tuple[PluginView, ...]:
        await self.fake.note("block", (name, why))
        self._require(name)
        self.fake.blocks[name] = Block(plugin=name, by=BlockedBy.COMMAND, why=why, since=AT)
        return tuple(view for view in self._views() if view.name == name)

    async def unblock(self, name: str) -> tuple[PluginView, ...]:
        await self.fake.note("unblock", name)
        self._require(name)
        if name == _SETTING.plugin:
            raise PluginBlockedBySettingError(plugin=name)
        self.fake.blocks.pop(name, None)
        return tuple(view for view in self._views() if view.name == name)

    def _require(self, name: str) -> None:
        known = tuple(sorted(view.name for view in self._views()))
        if name not in known:
            raise PluginUnknownError(plugin=name, known=known)

    def _views(self) -> tuple[PluginView, ...]:
        unwanted = PluginReport(_SETTING.plugin, "jam-unwanted", "3", "blocked", entry="jam_unwanted:Plugin", block=_SETTING)
        return (*(report.view(self.fake.blocks.get(report.name)) for report in _REPORTS), unwanted.view(_SETTING))
