"""The scripted model server as a process of its own, so that neither side of a comparison shares an event loop with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jamcore.testing.servers.script import Script, say
from jamcore.testing.servers.server import ModelServer

ANSWER = ("Here ", "is ", "what ", "you ", "asked ", "for.")


@contextmanager
def model_server(root: Path, server: type[ModelServer], deltas: tuple[str, ...] = ANSWER) -> Iterator[str]:
    """Yield the base URL of a server of this API that answers everything with the same deltas, at once."""
    script = root / "script.json"
    script.write_text(Script(rules=(say(*deltas),)).model_dump_json())
    argv = (sys.executable, "-m", server.__module__, "--script", str(script))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["base_url"])
        finally:
            process.stdin.close()  # which ends it
            process.wait(timeout=10)
