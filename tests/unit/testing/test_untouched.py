"""What a piece of code touches is seen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.untouched import Untouched

TOUCHES: dict[str, tuple[Callable[[], object], str]] = {
    "a file": (lambda: Path(__file__).read_bytes(), "open: "),
    "a directory": (lambda: list(Path("/").iterdir()), "os.listdir"),
    "a variable": (lambda: os.environ.get("HOME"), "environment: HOME"),
    "a variable, another way": (lambda: os.getenv("HOME"), "environment: HOME"),
    "all variables": (lambda: dict(os.environ), "environment"),
    "a host's name": (lambda: socket.getaddrinfo("127.0.0.1", 9), "socket.getaddrinfo"),
    "a process": (lambda: subprocess.run([sys.executable, "-c", ""], check=True), "subprocess.Popen"),
}


@pytest.mark.parametrize("what", TOUCHES)
def test_a_touch_is_seen(what: str) -> None:
    """By its name, and the code does what it would do."""
    touch, said = TOUCHES[what]
    with Untouched() as watch:
        touch()
    assert [each for each in watch.touched if each.startswith(said)], watch.touched


def test_what_touches_nothing_is_heard_as_nothing() -> None:
    """Computing is free, and so is everything outside the block and in other threads."""
    environment = os.environ
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        Path(__file__).read_bytes()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with Untouched() as watch:
        sum(range(1_000))
        go.set()
        done.wait()
    thread.join()
    Path(__file__).read_bytes()
    assert watch.touched == []
    assert os.environ is environment
