"""Showing how far an installation is: a bar on a terminal, a line now and then on anything else, nothing with JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from jamcore.cli.streams import writing
from jamcore.cli.text import safe_line

if TYPE_CHECKING:
    from jamcore.domain.requests import InstallProgress

Show = Callable[["InstallProgress"], None]
LINES = 10
"""So many lines at most say how far a step is, where there is no terminal and its whole is known."""
PART_BYTES = 20_000_000
"""A line for each so many bytes, where the whole is not known."""
_MEGABYTE = 1e6


@contextmanager
def download(label: str, *, stream: TextIO, silent: bool) -> Iterator[Show]:
    """Yield what to call with each new state; what is on a terminal goes away with the block."""
    if silent:
        yield lambda _state: None
    elif stream.isatty():
        with _bar(safe_line(label), stream) as show:
            yield show
    else:
        yield _Lines(safe_line(label), stream).show


class _Lines:
    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._said = ("", -1)
        self._print(f"installing {label} …")

    def show(self, state: InstallProgress) -> None:
        """Say a new step, and every further tenth of it, or part of so many bytes where the whole is not known."""
        part = state.bytes * LINES // state.total if state.total else state.bytes // PART_BYTES
        if state.step and (state.step, part) != self._said:
            self._said = (state.step, part)
            whole = f" of {state.total / _MEGABYTE:.1f}" if state.total else ""
            size = f": {state.bytes / _MEGABYTE:.1f}{whole} MB" if state.bytes or state.total else ""
            self._print(f"{state.step} {self._label}{size}")

    def _print(self, text: str) -> None:
        with writing():
            print(text, file=self._stream, flush=True)


@contextmanager
def _bar(label: str, stream: TextIO) -> Iterator[Show]:
    from rich.console import Console  # late: costs 40 ms
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    words = TextColumn("{task.description}", markup=False)
    with Progress(
        SpinnerColumn(), words, BarColumn(), DownloadColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(f"installing {label}", total=None)

        def show(state: InstallProgress) -> None:
            if state.step:
                bar.update(task, description=f"{state.step} {label}", completed=state.bytes, total=state.total or None)

        yield show
