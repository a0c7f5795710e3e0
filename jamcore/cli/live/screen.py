"""The terminal itself: whole lines scroll above, an open line and what runs stand below them, then the line to type in and the status.

Nothing but this module knows the library that draws it. Everything foreign that comes here has passed :mod:`jamcore.cli.text`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

import anyio
from anyio.abc import TaskStatus
from prompt_toolkit.application import Application, create_app_session, run_in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Dimension, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import TextArea

from jamcore.cli.streams import writing

REFRESH_S = 1.0
"""The status line counts seconds."""
TYPED_ROWS = 8
"""Rows of the line to type in; a longer message scrolls in them."""
OPEN_ROWS = 6
"""Rows of a line that has not ended yet; its end is shown."""
TYPED_LINES = 64
"""Messages that were typed while an earlier one is still being handed in."""
STYLE = Style.from_dict({"status": "noreverse ansibrightblack", "prompt": "bold", "running": "ansicyan"})


class Above(io.StringIO):
    """What a command prints on: whole lines wait to be shown above, the open one is shown below them as it grows."""

    def __init__(self, real: TextIO, changed: Callable[[], None]) -> None:
        super().__init__()
        self._real = real
        self._changed = changed
        self._whole: list[str] = []
        self.open = ""
        """The line that has not ended."""

    def write(self, text: str, /) -> int:
        """Take a text."""
        head, end, rest = text.rpartition("\n")
        if end:
            self._whole.append(f"{self.open}{head}\n")
            self.open = ""
        self.open += rest
        self._changed()
        return len(text)

    def isatty(self) -> bool:
        """Say yes: a person reads it."""
        return True

    def fileno(self) -> int:
        """Return the terminal's."""
        return self._real.fileno()

    def take(self) -> str:
        """Return the whole lines that nobody has taken."""
        text = "".join(self._whole)
        self._whole.clear()
        return text


@dataclass(frozen=True, slots=True)
class Below:
    """What stands below the text, asked for at each drawing: a line for each command that runs, the prompt, and the status.

    ``busy`` says whether a turn runs, which is what Ctrl-C is about then.
    """

    running: Callable[[], tuple[str, ...]]
    busy: Callable[[], bool]
    prompt: Callable[[], str]
    status: Callable[[], str]


class Screen:
    """One terminal while it is attached to a room."""

    def __init__(self, below: Below, *, history: History, interrupted: Callable[[], None]) -> None:
        """Take what to show.

        Args:
            below: What stands below the text.
            history: What was typed before.
            interrupted: Called when Ctrl-C is typed; when no turn runs and something was typed, that is thrown away instead.
        """
        self._below = below
        self._interrupted = interrupted
        self._output = _output()
        self.stream = Above(self._output.stdout, self._changed)
        self._more, self._written = anyio.Event(), anyio.Event()
        self._typed, self.typed = anyio.create_memory_object_stream[str](TYPED_LINES)
        self._area = TextArea(
            multiline=True,
            wrap_lines=True,
            history=history,
            height=Dimension(min=1, max=TYPED_ROWS),
            dont_extend_height=True,
            prompt=lambda: [("class:prompt", below.prompt())],
            accept_handler=self._accepted,
        )
        self._app: Application[None] = Application(
            layout=Layout(self._rows(), focused_element=self._area),
            key_bindings=self._keys(),
            style=STYLE,
            erase_when_done=True,
            refresh_interval=REFRESH_S,
            output=self._output,
            input=create_input(sys.__stdin__),
        )
        self._app.ttimeoutlen = 0.05

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Take the terminal until the block ends; it is as before afterwards, however that happens, and all that was printed is on it."""
        try:
            with create_app_session(input=self._app.input, output=self._output):
                async with anyio.create_task_group() as tasks:
                    await tasks.start(self._draw)
                    tasks.start_soon(self._pump)
                    try:
                        yield
                    finally:
                        if self._app.is_running and not self._app.is_done:
                            self._app.exit()
                        tasks.cancel_scope.cancel()
        finally:
            self._write(self.stream.take() + (f"{self.stream.open}\n" if self.stream.open else ""))

    async def drained(self) -> None:
        """Wait until what was printed is shown, so that a flood waits for the terminal."""
        if self._more.is_set():
            await self._written.wait()

    def restore(self, text: str) -> None:
        """Give back a message that was not accepted, if nothing was typed since."""
        if not self._area.text:
            self._area.text = text
            self._area.buffer.cursor_position = len(text)

    # ---------------------------------------------------------------------------------------------------------------- mechanics

    async def _draw(self, *, task_status: TaskStatus[None]) -> None:
        """Draw until the end. Its end is asked for, never cancelled: the library then leaves the terminal as it found it."""
        with self._typed, anyio.CancelScope(shield=True):
            try:
                await self._app.run_async(pre_run=task_status.started, handle_sigint=False, set_exception_handler=False)
            except EOFError:
                return  # the terminal is gone: the end of what is typed

    async def _pump(self) -> None:
        while True:
            await self._more.wait()
            while text := self.stream.take():
                with anyio.CancelScope(shield=True):
                    await run_in_terminal(lambda text=text: self._write(text))  # type: ignore[misc]
            self._written.set()
            self._more, self._written = anyio.Event(), anyio.Event()

    def _write(self, text: str) -> None:
        if text:
            with writing():
                self._output.write_raw(text.replace("\n", "\r\n"))
                self._output.flush()

    def _changed(self) -> None:
        self._more.set()
        if self._app.is_running:
            self._app.invalidate()

    def _accepted(self, buffer: object) -> bool:
        del buffer
        try:
            self._typed.send_nowait(self._area.text)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return True  # the text stays where it was typed
        return False

    def _rows(self) -> HSplit:
        open_window = Window(
            FormattedTextControl(self._open_text),
            height=lambda: Dimension() if self.stream.open or self._below.running() else Dimension.exact(0),
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(FormattedTextControl(lambda: [("class:status", self._below.status())]), height=1)
        return HSplit([open_window, self._area, status])

    def _open_text(self) -> StyleAndTextTuples:
        opened = self.stream.open[-OPEN_ROWS * self._output.get_size().columns :].expandtabs()
        running = "\n".join(self._below.running())
        return [("", opened), ("", "\n" if opened and running else ""), ("class:running", running)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text and not self._below.busy():
                event.current_buffer.reset()
            else:
                self._interrupted()

        nothing_typed = Condition(lambda: not self._area.text)

        # While something is printed above, the terminal is not raw for a moment. Ctrl-D pressed then is kept by its driver as the end of
        # what is typed, and read afterwards as NUL, which is the name of Ctrl-@.
        @keys.add("c-d", filter=nothing_typed)
        @keys.add("c-@", filter=nothing_typed)
        def _(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys


def _output() -> Vt100_Output:
    """Return the terminal. It is never asked where its cursor is: one that does not answer shows the question."""
    stdout = sys.__stdout__
    assert stdout is not None

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(stdout.fileno())
        except OSError:
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    return Vt100_Output(stdout, size, default_color_depth=ColorDepth.from_env(), enable_cpr=False)
