"""What a person is told of a room that was made and did not come up: it is kept, holds its name, and can be tried again."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import anyio
import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.hints import hint_of
from jamcore.cli.output import Output
from jamcore.cli.rooms import making
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam


def test_a_new_room_that_does_not_come_up_is_named(jam: Jam) -> None:
    """Its agent's command is what there is to look at, since it has had no turn and there is no state that it could come back from."""
    refused = jam("room", "new", "codex", "--name", "cu", "--model", "gone")
    assert refused.status == Exit.FAULT
    assert "hint: Check the agent's command and version" in refused.err
    assert refused.err.endswith("Room cu is kept; `jam resume cu` tries again.\n")
    hint = jam("room", "new", "codex", "--name", "my own", "--model", "gone", "--json").lines[-1]["error"]["hint"]
    assert hint.endswith("Room 'my own' is kept; `jam resume 'my own'` tries again.")


def test_a_run_names_the_room_that_it_leaves(jam: Jam) -> None:
    """Jam found its name, so nobody could know it."""
    left = jam("run", "codex", "fix it", "--model", "gone")
    [name] = {row["room"]["name"] for row in jam("ls", "--json").json} & {word.strip("`") for word in left.err.split()}
    assert f"Room {name} is kept; `jam resume {name}` tries again." in left.err


def test_of_a_room_that_was_not_made_nothing_is_kept(jam: Jam) -> None:
    """The name is free."""
    refused = jam("room", "new", "nobody", "--name", "free")
    assert refused.status == Exit.REFUSED
    assert "is kept" not in refused.err


@pytest.mark.anyio
@pytest.mark.parametrize("json", [False, True], ids=["a person", "a program"])
async def test_a_room_that_takes_long_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, json: bool) -> None:
    """One line beside the result, and none with JSON; nothing where the room is there soon, and a failure is the failure itself."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(json=json, out=out, err=err)
    monkeypatch.setattr("jamcore.cli.rooms.QUIET_S", 0.0)

    async def slow() -> str:
        with anyio.move_on_after(0.2):
            await anyio.sleep_forever()
        return "made"

    async def fails() -> str:
        raise ProviderGoneError("small", "code 7")

    assert await making(output, cast("Any", None), UUID(int=1), slow, provider="small")() == "made"
    said = err.getvalue()
    assert said.count("\n") == (0 if json else 1)
    assert json or said.startswith(
        "Still waiting for small: its sandbox is made, then its program is started, which has up to 120 s"
    )
    assert out.getvalue() == ""
    monkeypatch.undo()

    async def quick() -> str:
        return "made"

    assert await making(output, cast("Any", None), UUID(int=1), quick, provider="small")() == "made"
    with pytest.raises(ProviderGoneError):
        await making(output, cast("Any", None), UUID(int=1), fails, provider="small")()
    assert err.getvalue() == said


@pytest.mark.parametrize("error", [ProviderGoneError("small", "code 7"), ProviderProtocolError("small", "no JSON")])
def test_a_program_that_never_came_up_was_cut_in_no_turn(error: ProviderGoneError | ProviderProtocolError) -> None:
    """Where nobody knows whether a turn ran, none is claimed, and the command is named as what may be wrong."""
    assert "turn" not in hint_of(error)
    assert "the agent's command" in hint_of(error)
