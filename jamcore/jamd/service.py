"""The daemon's process: settings, lock, composition, service, end. The only module that sees both daemon and control."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import structlog

from jamcore.control.directory import environment
from jamcore.control.loopback import LoopbackAddress
from jamcore.control.server import serving
from jamcore.control.settings import Settings, load_settings
from jamcore.control.sockets import runtime_directory
from jamcore.control.versions import jam_version
from jamcore.daemon.compose import composed
from jamcore.daemon.crash import crash_points
from jamcore.daemon.logs import logging_to
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError, RefusalError
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.lock import AppDirectoryUnusableError, Holding, owning

EXIT_OK, EXIT_REFUSED, EXIT_FAULT = 0, 3, 4


def main() -> int:
    """Run the daemon in the foreground. Prints nothing but, when it cannot start, one line that says why."""
    parser = argparse.ArgumentParser(prog="jamd", description="The Jam daemon. `jam` starts it when needed.")
    parser.add_argument(
        "--app-directory", type=Path, default=None, help="the app directory; default: JAM_HOME or the user's data directory"
    )
    chosen = parser.parse_args()
    os.umask(0o077)
    environ = environment()
    try:
        settings = load_settings(chosen.app_directory, environ).settings
        run(settings, environ)
    except JamError as error:
        sys.stderr.write(f"jamd: {error} {error.hint}\n")
        return EXIT_REFUSED if isinstance(error, RefusalError) else EXIT_FAULT
    return EXIT_OK


def run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Own the app directory and serve until a signal or a client ends it.

    Raises:
        JamError: It cannot start.
    """
    app = settings.home
    files = Files()
    try:
        files.make_private(app)
    except OSError as error:
        raise AppDirectoryUnusableError(directory=str(app), problem=error.strerror or str(error)) from error
    options = DaemonOptions(
        app=app,
        runtime=runtime_directory(settings.runtime_directory, environ),
        version=jam_version(),
        pid=os.getpid(),
        environment=environ,
        engine=settings.engine,
        resources=settings.resources(),
        blocked_plugins=frozenset(settings.blocked_plugins),
        providers=settings.providers,
        sandboxing=settings.sandboxing == "on",
        engine_host=settings.engine_host,
        storage_volume=settings.storage_volume,
        wheel_directory=settings.wheel_directory,
        database_url=settings.database_url,
        approval_deadline_s=settings.approval_deadline_s,
        limits=settings.time_limits(),
        files=files,
        crash=crash_points(environ),
    )
    with (
        owning(app / layout.LOCK, pid=options.pid, started_at=SystemClock().now()) as lock,
        logging_to(app / layout.LOG, settings.log_level),
    ):
        try:
            anyio.run(_serve, replace(options, told=partial(_told, lock)), settings.tcp())
        except JamError as error:
            structlog.get_logger("jam.daemon").error("ended", error=str(error))  # who started it may not have kept its last words
            raise


def _told(lock: Holding, doing: str) -> None:
    """Say what the start is about, to whoever waits for it."""
    with suppress(OSError):  # a full disk: nobody is told, and the start goes on
        lock.say(doing)


async def _serve(options: DaemonOptions, tcp: LoopbackAddress | None) -> None:
    log = structlog.get_logger("jam.daemon")
    async with composed(options) as services, anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, services)
        async with serving(
            services, app_directory=options.app, files=options.files, runtime=options.runtime, limits=options.limits, tcp=tcp
        ):
            log.info("listening", version=options.version, pid=options.pid)
            await services.system.stopped()
            log.info("stopping")
            # The last of the bounds: the hosts' end, which began with the stop, and the server's are both inside it. Whatever hangs all the
            # same, the process ends; journals and the start-up replay take care of the rest.
            signal.setitimer(signal.ITIMER_REAL, options.limits.forced_exit_s)
        tasks.cancel_scope.cancel()


async def _stop_on_signal(services: Services) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            services.system.shutdown()
