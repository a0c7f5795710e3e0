"""Plugins: what became of each, and which a person blocked."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.control.schemas import PluginList
from jamcore.domain.plugins import BlockRequest


async def plugins(call: Call) -> PluginList:
    """List plugins."""
    return PluginList(items=await call.services.plugins.list())


async def block(call: Call) -> PluginList:
    """Block a name."""
    return PluginList(items=await call.services.plugins.block(call.part("name"), call.body(BlockRequest).why))


async def unblock(call: Call) -> PluginList:
    """Unblock a name."""
    return PluginList(items=await call.services.plugins.unblock(call.part("name")))


ROUTES: tuple[AnyRoute, ...] = (
    Route("GET", "/v1/plugins", "list_plugins", "Every plugin, also those not loaded, with all that is wrong", plugins, PluginList),
    Route(
        "PUT",
        "/v1/plugins/{name}/block",
        "block_plugin",
        "Import no plugin of this name from the daemon's next start on; its rooms stay",
        block,
        PluginList,
        body=BlockRequest,
    ),
    Route(
        "DELETE",
        "/v1/plugins/{name}/block",
        "unblock_plugin",
        "Import plugins of this name again from the daemon's next start on",
        unblock,
        PluginList,
    ),
)
