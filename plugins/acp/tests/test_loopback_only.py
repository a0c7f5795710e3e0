"""OpenCode as the plugin configures it contacts the model endpoint and nothing else, and its side server answers nobody."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import anyio
import pytest

from jamcore.testing.providers.case import Case
from jamcore.testing.providers.loopback import ProviderLoopback

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.slow]

LISTEN = "0A"
"""The state of a socket that listens, in the kernel's table."""


class TestLoopback(ProviderLoopback):
    """OpenCode's."""

    vendors = (r"opencode\.ai$", r"^registry\.")


@pytest.mark.anyio
async def test_its_side_server_answers_nobody(case: Case) -> None:
    """Beside its protocol it serves HTTP on loopback, which may be the machine's; the password is made in the guest at each start."""
    async with case.running() as (_, runtime):
        await case.begin(runtime)
        ports = listening(case.guest.processes[-1].pid)
        urls = [f"http://127.0.0.1:{port}/{path}" for port in ports for path in ("session", "config")]
        answers = {await anyio.to_thread.run_sync(status_of, url) for url in urls}
    assert ports
    assert answers == {401}


def listening(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    places = [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    sockets = {str(place)[8:-1] for place in places if str(place).startswith("socket:[")}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == LISTEN and row[9] in sockets}


def status_of(url: str) -> int:
    """Return the status of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
