"""A scripted model server as a program of its own, whatever its API.

It prints one line of JSON with its URLs, and ends on SIGTERM, SIGINT or the end of its standard input.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from jamcore.testing.servers.script import Script
from jamcore.testing.servers.server import ModelServer

EXIT_BAD_SCRIPT = 2
STDIN = 0


def run_program(kind: type[ModelServer], arguments: Sequence[str] | None = None) -> int:
    """Run a server until it is told to end.

    Returns:
        The exit status: 0 at the end, 2 for a script that cannot be read or that this API cannot say.
    """
    # The module that was started, not this one: its name is what a person typed.
    parser = argparse.ArgumentParser(prog=f"python -m {_module_of(kind)}", description="A scripted model server.")
    parser.add_argument("--script", type=Path, required=True, help="the script, as JSON")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 (default): one that is free")
    parser.add_argument("--record", type=Path, help="append each request to this file, one line of JSON each")
    parser.add_argument("--hold-dir", type=Path, help="a file named like a gate in this directory releases that gate")
    options = parser.parse_args(arguments)
    try:
        script = Script.model_validate_json(options.script.read_bytes())
        server = kind(script, port=options.port, record=options.record, hold_directory=options.hold_dir)
    except (OSError, ValueError) as error:
        print(f"{options.script}: {error}", file=sys.stderr)
        return EXIT_BAD_SCRIPT
    anyio.run(_serve, server)
    return 0


def _module_of(kind: type[ModelServer]) -> str:
    spec = getattr(sys.modules[kind.__module__], "__spec__", None)
    return kind.__module__ if spec is None else str(spec.name)


async def _serve(server: ModelServer) -> None:
    # The signals are taken before the line is printed: who reads it may send one at once.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with server, anyio.create_task_group() as group:
            print(json.dumps({"base_url": server.base_url, "api_url": server.api_url}), flush=True)
            group.start_soon(_end_with_stdin, group.cancel_scope)
            async for _ in signals:
                group.cancel_scope.cancel()


async def _end_with_stdin(scope: anyio.CancelScope) -> None:
    """Cancel ``scope`` at the end of standard input, where that is a pipe, a socket or a terminal.

    A file and ``/dev/null`` are at their end from the start and cannot be waited for; there only a signal ends the server.
    """
    mode = os.fstat(STDIN).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(STDIN)):
        return
    while True:
        await anyio.wait_readable(STDIN)
        if not os.read(STDIN, 65_536):
            scope.cancel()
            return
