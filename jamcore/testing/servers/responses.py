"""A scripted model server for OpenAI's Responses API: what tests import, and a program of its own.

In a test::

    async with ResponsesServer(Script(rules=(say("Hel", "lo"),))) as model:
        ...  # point the client at model.api_url
        await model.wait_for(delta_sent(1, 1), timeout_s=5)

As a program, which prints one line of JSON with its URLs and ends on SIGTERM, SIGINT or the end of its standard input::

    python -m jamcore.testing.servers.responses --script FILE.json --record REQUESTS.jsonl --hold-dir DIRECTORY
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
from pydantic import ValidationError

from jamcore.testing.servers.faults import (
    CutFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    SilentFault,
    SlowFault,
)
from jamcore.testing.servers.ledger import (
    Predicate,
    RecordedRequest,
    ServerEvent,
    delta_sent,
    held_at,
    read_records,
    received,
)
from jamcore.testing.servers.script import (
    Call,
    CustomCall,
    Hold,
    Match,
    Pause,
    Reasoning,
    Rule,
    Script,
    Text,
    Usage,
    say,
)
from jamcore.testing.servers.server import ResponsesServer

__all__ = [
    "Call",
    "CustomCall",
    "CutFault",
    "FailedFault",
    "Fault",
    "GarbageFault",
    "Hold",
    "HttpFault",
    "Match",
    "Pause",
    "Predicate",
    "Reasoning",
    "RecordedRequest",
    "ResponsesServer",
    "Rule",
    "Script",
    "ServerEvent",
    "SilentFault",
    "SlowFault",
    "Text",
    "Usage",
    "delta_sent",
    "held_at",
    "main",
    "read_records",
    "received",
    "say",
]

EXIT_BAD_SCRIPT = 2
STDIN = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server as a program; returns the exit status: 0 at the end, 2 for a script that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.servers.responses", description="A scripted model server.")
    parser.add_argument("--script", type=Path, required=True, help="the script, as JSON")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 (default): one that is free")
    parser.add_argument("--record", type=Path, help="append each request to this file, one line of JSON each")
    parser.add_argument("--hold-dir", type=Path, help="a file named like a gate in this directory releases that gate")
    options = parser.parse_args(arguments)
    try:
        script = Script.model_validate_json(options.script.read_bytes())
    except (OSError, ValidationError) as error:
        print(f"{options.script}: {error}", file=sys.stderr)
        return EXIT_BAD_SCRIPT
    server = ResponsesServer(script, port=options.port, record=options.record, hold_directory=options.hold_dir)
    anyio.run(_serve, server)
    return 0


async def _serve(server: ResponsesServer) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
