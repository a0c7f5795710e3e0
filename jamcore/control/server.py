"""Serving the application on the private socket, and making the daemon findable while it does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from aiohttp import web

from jamcore.control.address import read_record, remove_record, write_record
from jamcore.control.app import build_app
from jamcore.control.directory import environment
from jamcore.control.failures import TcpUnusableError
from jamcore.control.loopback import Doorkeeper, LoopbackAddress, control_token
from jamcore.control.schemas import DaemonRecord
from jamcore.control.sockets import forget, forget_dead, former_places, listen, runtime_directory, socket_path
from jamcore.control.versions import API_VERSION, jam_version
from jamcore.daemon.services import Services
from jamcore.domain.errors import JamError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.system.files import Files

KEEPALIVE_S = 75.0
"""An idle connection is closed after this; Jam's own client uses a connection once."""


@asynccontextmanager
async def serving(
    services: Services,
    *,
    app_directory: Path,
    files: Files,
    runtime: Path | None = None,
    limits: Limits = DEFAULTS,
    tcp: LoopbackAddress | None = None,
) -> AsyncIterator[Path]:
    """Serve while the block runs, and yield the socket's path. The caller holds the lock of the app directory (OWN-7).

    At the end new requests are refused, streams end by themselves, and what is being answered gets as long as the hosts have for their own
    end, which runs at the same time. Whatever does not end by then is cut off, in time for what the daemon closes after this. A client that
    goes away never cancels what it asked for (CTRL-4). With ``tcp`` the same application listens there too, behind its token (CTRL-2).

    Raises:
        TokenUnusableError: The token for TCP is not private.
        TcpUnusableError: The address of ``tcp`` cannot be had.
        UnsafeRuntimeDirectoryError: The directory for the socket is not private.
        SocketOccupiedError: Something that is not Jam's lies in its place.
    """
    doorkeeper = None if tcp is None else Doorkeeper(tcp, control_token(app_directory, files))
    path = socket_path(app_directory, runtime_directory(runtime, environment()))
    listener = listen(path, replace_stale=True)
    record = DaemonRecord(socket=str(path), pid=os.getpid(), version=jam_version(), api=API_VERSION)
    runner = web.AppRunner(
        build_app(services, doorkeeper=doorkeeper),
        handle_signals=False,
        access_log=None,
        handler_cancellation=False,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=limits.finalise_s,
    )
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        if tcp is not None:
            await _listen_on(runner, tcp)
        _forget_former(app_directory, path)
        write_record(app_directory, record, files)
        yield path
    finally:
        # A cancelled caller still leaves nothing behind. What would not end by itself, and then not when it was cancelled, is left to the
        # end of the process: half of what the daemon has beyond a finalisation stays for the engines and the store.
        with anyio.move_on_after((limits.finalise_s + limits.forced_exit_s) / 2, shield=True):
            remove_record(app_directory, record, files)
            await runner.cleanup()
        forget(path, listener)


def _forget_former(app_directory: Path, path: Path) -> None:
    """Remove what a life that was killed left elsewhere: in another runtime directory, or under the name that the app directory had.

    The name is the app directory's own, whose lock is held, and nobody listens on it.
    """
    for place in former_places(app_directory, environment()):
        if place != path:
            forget_dead(place)
    with suppress(JamError):
        former = read_record(app_directory)
        if former is not None and former.socket != str(path):
            forget_dead(Path(former.socket))


async def _listen_on(runner: web.AppRunner, tcp: LoopbackAddress) -> None:
    try:
        await web.TCPSite(runner, tcp.host, tcp.port).start()
    except OSError as error:
        raise TcpUnusableError(address=str(tcp), problem=error.strerror or str(error)) from error
