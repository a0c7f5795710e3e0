"""What commands print: text for people, or JSON. Every foreign text passes through :func:`jamcore.cli.text.safe` here (SEC-3).

Results go to standard output; progress, notes and errors go to standard error. On a pipe, tables are lines of tab-separated cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

from jamcore.cli.hints import hint_of, hint_of_new
from jamcore.cli.streams import writing
from jamcore.cli.text import safe, safe_line
from jamcore.cli.ticker import Ticker

if TYPE_CHECKING:
    from rich.console import Console

    from jamcore.cli.download import Show
    from jamcore.domain.errors import JamError
    from jamcore.domain.records import Record

Row = Sequence[object]


class Output:
    """Where one command prints. ``json`` says that standard output carries JSON and nothing else; ``room`` is whom the command is about."""

    def __init__(self, *, json: bool, out: TextIO, err: TextIO, room: str = "") -> None:
        self.json = json
        self._room = room
        self.kept_room = ""
        """The room that a command made and could not bring up."""
        self._out = out
        self._err = err
        self.ticker = Ticker(err, silent=json)
        self._consoles: dict[TextIO, Console] = {}

    @property
    def interactive(self) -> bool:
        """Whether a person reads standard output."""
        return self._out.isatty() and not self.json

    # ------------------------------------------------------------------------------------------------------------- for programs

    def document(self, value: Record | Mapping[str, object] | Sequence[Record | Mapping[str, object]]) -> None:
        """Print one JSON document."""
        self._raw(_json(_plain(value), indent=2) + "\n")

    def json_line(self, value: Record | Mapping[str, object]) -> None:
        """Print one line of JSON; used by what streams."""
        self._raw(_json(_plain(value), indent=None) + "\n")

    # --------------------------------------------------------------------------------------------------------------- for people

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line of the result."""
        self._print(self._out, safe(text), style)

    def note(self, text: str, style: str = "dim") -> None:
        """Print a line beside the result, on standard error. Silent with JSON."""
        if not self.json:
            self._print(self._err, safe(text), style)

    def piece(self, text: str) -> None:
        """Print a part of a line of the result as it arrives."""
        self._raw(safe(text))

    def table(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Print rows: aligned with a heading on a terminal, tab-separated on a pipe."""
        cells = [[safe_line(_cell(value)) for value in row] for row in rows]
        if not self.interactive:
            self._raw("".join("\t".join(row) + "\n" for row in cells))
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        with writing():
            self._console(self._out).print(table)

    def pairs(self, rows: Iterable[tuple[str, object]]) -> None:
        """Print names and values."""
        self.table(("", ""), rows)

    def problem(self, error: JamError) -> None:
        """Say what happened, why, and what to do."""
        message = safe_line(_message(error))
        if self.json:
            body = {"code": error.code, "message": message, "context": error.context(), "hint": self._hint(error)}
            self.json_line({"error": body})
            return
        with self.ticker.hidden():
            self._print(self._err, f"jam: {message} ({safe_line(error.code)})", "bold red")
            for name, value in error.context().items():
                if value:
                    self._print(self._err, f"  {safe_line(name)}: {safe_line(value)}")
            if hint := self._hint(error):
                self._print(self._err, f"  hint: {safe_line(hint)}", "yellow")

    def flush(self) -> None:
        """Write out what is buffered."""
        with writing():
            self._out.flush()
            self._err.flush()

    def download(self, label: str) -> AbstractContextManager[Show]:
        """Show how far a download is, beside the result."""
        from jamcore.cli.download import download  # late: it knows records, which most output does not

        return download(label, stream=self._err, silent=self.json)

    # ----------------------------------------------------------------------------------------------------------------- mechanics

    def _hint(self, error: JamError) -> str:
        return hint_of_new(error, room=self.kept_room) if self.kept_room else hint_of(error, room=self._room)

    def _raw(self, text: str) -> None:
        with self.ticker.hidden(), writing():
            self._out.write(text)
            self._out.flush()

    def _print(self, stream: TextIO, text: str, style: str = "") -> None:
        with self.ticker.hidden(), writing():
            if stream.isatty() and style:
                self._console(stream).print(text, style=style)
            else:
                print(text, file=stream, flush=True)

    def _console(self, stream: TextIO) -> Console:
        if stream not in self._consoles:
            from rich.console import Console  # late: costs 40 ms, and a pipe needs none of it

            self._consoles[stream] = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=True)
        return self._consoles[stream]


def _message(error: JamError) -> str:
    """Return the sentence for a person: the daemon's own, or that of the error's class."""
    answer = getattr(error, "answer", None)
    if answer is not None:
        return str(answer.message)
    return (type(error).__doc__ or error.code).strip().splitlines()[0].partition(" (")[0].rstrip(".")


def _plain(value: object) -> object:
    # A record is known by its method: its class would cost 60 ms of imports, and what prints JSON as it came needs none.
    if dump := getattr(value, "model_dump", None):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def _json(value: object, *, indent: int | None) -> str:
    """ASCII only: whatever a guest wrote reaches a terminal escaped, and a program unchanged."""
    return json.dumps(value, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
