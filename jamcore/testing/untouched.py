"""Sees what a piece of code touches: files, the environment, the network, processes. For code that has to touch nothing.

It hears the interpreter's own audit events of the watching thread, and reads of ``os.environ``. A look at a path that opens nothing
(``stat``) makes no event and is not seen.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Self

HEARD = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "shutil.",
    "tempfile.",
    "sqlite3.",
    "urllib.",
    "glob.",
    "pathlib.",
    "ctypes.dlopen",
)
"""How the names of the audit events begin that are heard."""

_watching = threading.local()
"""In a thread that is being watched: what it touched."""
_installed = threading.Event()
"""Audit hooks stay for ever, so there is one for all."""


class Untouched:
    """Watches the current thread for the length of the block."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self._environment: MutableMapping[str, str] = os.environ

    def __enter__(self) -> Self:
        if not _installed.is_set():
            _installed.set()
            sys.addaudithook(_heard)
        noting = _Noting(os.environ, self.touched, threading.get_ident())
        setattr(os, "environ", noting)  # noqa: B010 - its type is another
        _watching.touched = self.touched
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        del _watching.touched
        setattr(os, "environ", self._environment)  # noqa: B010


class _Noting(MutableMapping[str, str]):
    """An environment that notes what the watched thread reads and writes."""

    def __init__(self, real: MutableMapping[str, str], touched: list[str], thread: int) -> None:
        self._real, self._touched, self._thread = real, touched, thread

    def __getitem__(self, name: str) -> str:
        self._note(f"environment: {name}")
        return self._real[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._note(f"environment: {name}")
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        self._note(f"environment: {name}")
        del self._real[name]

    def __iter__(self) -> Iterator[str]:
        self._note("environment")
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def _note(self, what: str) -> None:
        if threading.get_ident() == self._thread:
            self._touched.append(what)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    touched: list[str] | None = getattr(_watching, "touched", None)
    if touched is not None and event.startswith(HEARD):
        touched.append(f"{event}: {str(arguments[0])[:200]}" if arguments else event)
