"""Commands that print what the daemon lists: without the records and the event loop where the usual case allows it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from jamcore.cli.exits import Exit
from jamcore.cli.output import Output, Row
from jamcore.cli.streams import OutputLostError, lost
from jamcore.control.directory import app_directory, environment
from jamcore.control.question import ask

if TYPE_CHECKING:
    from jamcore.cli.invoke import Session
    from jamcore.control.client import JamClient
    from jamcore.domain.records import Record

Item = Mapping[str, Any]
"""A record as the JSON that travels."""


class Listing(NamedTuple):
    """What is listed, and how it looks to a person."""

    target: str
    fetch: Callable[[JamClient], Awaitable[Sequence[Record]]]
    """The same question for the typed client."""
    columns: tuple[str, ...]
    row: Callable[[Item], Row]
    empty: str
    """What to say when there is nothing."""


def run_listing(listing: Listing, *, json: bool, directory: Path | None) -> NoReturn:
    """Ask, print, and end the process with its status; what a command does."""
    sys.exit(print_listing(listing, json=json, directory=directory))


def print_listing(listing: Listing, *, json: bool, directory: Path | None = None) -> int:
    """Ask, print, and return the status."""
    try:
        items = _quickly(listing, directory)
        if items is None:
            _with_the_client(listing, json=json, directory=directory)
        output = Output(json=json, out=sys.stdout, err=sys.stderr)
        _show(output, listing, items)
        output.flush()
    except OutputLostError as error:
        return lost(error.cause)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


def _quickly(listing: Listing, directory: Path | None) -> list[Item] | None:
    answer = ask(app_directory(directory, environment()), listing.target)
    if answer is None:
        return None
    try:
        items = list(answer["items"])
        for item in items:
            listing.row(item)  # what does not have the form of this release is the typed client's to refuse
    except (KeyError, TypeError, ValueError):
        return None
    return items


def _with_the_client(listing: Listing, *, json: bool, directory: Path | None) -> NoReturn:
    from jamcore.cli.invoke import invoke  # late: the typed client and its records are most of what a command costs

    async def work(session: Session) -> Exit:
        records = await listing.fetch(session.client())
        _show(session.output, listing, [record.model_dump(mode="json") for record in records])
        return Exit.OK

    invoke(work, json=json, directory=directory)


def _show(output: Output, listing: Listing, items: Sequence[Item]) -> None:
    if output.json:
        output.document(items)
        return
    output.table(listing.columns, (listing.row(item) for item in items))
    if not items:
        output.note(listing.empty)
