"""The typed client's part for plugins: ``client.plugins``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, quoted
from jamcore.control.schemas import PluginList
from jamcore.domain.plugins import BlockRequest, PluginView


class PluginClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def list(self) -> tuple[PluginView, ...]:
        """Return every plugin, also those not loaded."""
        return (await self._ask(PluginList, "/v1/plugins")).items

    async def block(self, name: str, *, why: str = "") -> tuple[PluginView, ...]:
        """Block a name from the daemon's next start on; returns the plugins that have it."""
        return (await self._change(PluginList, "PUT", f"/v1/plugins/{quoted(name)}/block", BlockRequest(why=why))).items

    async def unblock(self, name: str) -> tuple[PluginView, ...]:
        """Unblock a name from the daemon's next start on; returns the plugins that have it."""
        return (await self._change(PluginList, "DELETE", f"/v1/plugins/{quoted(name)}/block")).items
