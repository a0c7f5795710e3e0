"""A line on standard error that shows that something goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from jamcore.cli.streams import writing
from jamcore.cli.text import safe_line
from jamcore.system.clock import Clock, SystemClock

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STEP_S = 0.1
SHOW_AFTER_S = 0.3
"""What is done by then needs no line."""
LABEL_CHARACTERS = 60
_CLEAR = "\r\x1b[K"


class Ticker:
    """Shows a label with the seconds that passed. On anything but a terminal it says the label once, or nothing when ``silent``.

    It runs in a thread, so it moves also while this process waits; the thread ends with :meth:`during`.
    """

    def __init__(self, stream: TextIO, *, silent: bool = False, clock: Clock | None = None) -> None:
        self._stream = stream
        self._live = stream.isatty() and not silent
        self._silent = silent
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._shown = False
        self._hidden = 0

    @contextmanager
    def during(self, label: str) -> Iterator[None]:
        """Show ``label`` while the block runs."""
        if not self._live:
            if not self._silent:
                with writing():
                    print(f"{safe_line(label)} …", file=self._stream, flush=True)
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._spin, args=(label, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._clear()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the line away while the block prints something else."""
        with self._lock:
            self._clear()
            yield

    def hold(self, *, hold: bool) -> None:
        """Keep the line away while a text is being written piece by piece, and bring it back after."""
        with self._lock:
            self._hidden = int(hold)
            self._clear()

    def _spin(self, label: str, ended: threading.Event) -> None:
        began = self._clock.monotonic()
        pause = SHOW_AFTER_S
        frame = 0
        while not ended.wait(pause):
            pause, frame = STEP_S, frame + 1
            passed = int(self._clock.monotonic() - began)
            with self._lock:
                if not self._hidden:
                    text = safe_line(label, LABEL_CHARACTERS)
                    self._stream.write(f"{_CLEAR}{FRAMES[frame % len(FRAMES)]} {text} {passed} s")
                    self._stream.flush()
                    self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False
