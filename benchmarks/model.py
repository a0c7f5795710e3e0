"""The scripted model server as a process of its own, so that neither side of a comparison shares an event loop with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.script import Script, say

ANSWER = ("Here ", "is ", "what ", "you ", "asked ", "for.")


@contextmanager
def model_server(root: Path, deltas: tuple[str, ...] = ANSWER, api: str = "responses") -> Iterator[str]:
    """Yield the base URL of a server of one of the APIs that answers everything with the same deltas, at once."""
    script = root / "script.json"
    script.write_text(Script(rules=(say(*deltas),)).model_dump_json())
    argv = (sys.executable, "-m", SERVERS[api].__module__, "--script", str(script))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["base_url"])
        finally:
            process.stdin.close()  # which ends it
            process.wait(timeout=10)
