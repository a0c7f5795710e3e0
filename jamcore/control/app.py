"""The aiohttp application over the daemon's services."""

from __future__ import annotations

import anyio
from aiohttp import web

from jamcore.control.errors import DOORKEEPER, OWNER, errors, owner, stamp
from jamcore.control.loopback import Doorkeeper
from jamcore.control.openapi import document
from jamcore.control.routes import (
    approvals,
    archives,
    changes,
    checkpoints,
    clearing,
    continuity,
    exports,
    hosts,
    imports,
    operations,
    plugins,
    rooms,
    system,
    workspaces,
)
from jamcore.control.routes.route import SERVICES, TEXT_BODY, AnyRoute, StreamRoute
from jamcore.control.streams import STOPPING
from jamcore.daemon.services import Services

ROUTES: tuple[AnyRoute, ...] = (
    *system.ROUTES,
    *plugins.ROUTES,
    *rooms.ROUTES,
    *hosts.ROUTES,
    *approvals.ROUTES,
    *changes.ROUTES,
    *checkpoints.ROUTES,
    *continuity.ROUTES,
    *exports.ROUTES,
    *imports.ROUTES,
    *clearing.ROUTES,
    *archives.ROUTES,
    *operations.ROUTES,
    *workspaces.ROUTES,
)
OPENAPI_PATH = "/v1/openapi.json"


def build_app(services: Services, *, owner_uid: int | None = None, doorkeeper: Doorkeeper | None = None) -> web.Application:
    """Return the application. It holds no state but the services and the mark that it is stopping.

    Args:
        services: What the daemon can do.
        owner_uid: Who may use it; the user of this process when absent (SEC-6).
        doorkeeper: Decides about requests over TCP (CTRL-2); absent: they are refused like a stranger's.
    """
    app = web.Application(middlewares=[errors], client_max_size=TEXT_BODY)
    app[SERVICES] = services
    app[OWNER] = owner() if owner_uid is None else owner_uid
    if doorkeeper is not None:
        app[DOORKEEPER] = doorkeeper
    app[STOPPING] = anyio.Event()
    app.on_shutdown.append(_stop_streams)
    for route in ROUTES:
        method = "GET" if isinstance(route, StreamRoute) else route.method
        app.router.add_route(method, route.path, route.handle, name=route.name)
    app.router.add_get(OPENAPI_PATH, _openapi, name="openapi")
    return app


async def _stop_streams(app: web.Application) -> None:
    app[STOPPING].set()


async def _openapi(request: web.Request) -> web.Response:
    del request
    return web.json_response(document(ROUTES), headers=stamp())
