"""A test that kills a daemon leaves no socket of it behind, whatever the daemon had written down by then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jamcore.control.sockets import listen, runtime_directory, socket_path
from jamcore.testing.daemon import DaemonChild

pytestmark = pytest.mark.unprivileged


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose name is short enough for a socket in it."""
    with TemporaryDirectory(prefix="jam-t") as directory:
        yield Path(directory)


@pytest.mark.parametrize(("code", "stays"), [(-9, False), (-14, False), (0, True)], ids=["killed", "backstop", "orderly"])
def test_the_socket_of_a_killed_daemon_is_found_without_its_record(place: Path, code: int, stays: bool) -> None:
    """It was killed before it wrote the record, after it removed it, or its app directory was moved; an orderly end did it itself."""
    child = DaemonChild(place / "app", private=place / "private")
    runtime = runtime_directory(None, {"XDG_RUNTIME_DIR": child._places()["XDG_RUNTIME_DIR"]})
    left = socket_path(child.app, runtime)
    listen(left, replace_stale=False).close()
    ended = SimpleNamespace(poll=lambda: code, wait=lambda timeout: code, send_signal=None)
    child._process = cast("Any", ended)
    assert child.stop() == code
    assert left.exists() is stays
