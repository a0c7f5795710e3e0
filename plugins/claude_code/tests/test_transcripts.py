"""What a transcript says of its turns, read as the pinned program writes it."""

from __future__ import annotations

import json
from hashlib import sha256

import anyio
import pytest

from jam_claude_code.transcript import Remembered, remembered
from jamcore.api import ProviderRefusedError, TurnOutcome
from jamcore.testing.local_guest import LocalGuest

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

THREAD = "0447d3fd-34ba-492b-876b-da9bb3615d8e"
DONE, CUT, FAILED = TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED, TurnOutcome.FAILED

Record = dict[str, object]


def said(turn: str, content: object = "hi", **more: object) -> Record:
    """Return the record of what a person said."""
    return {
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": content},
        "uuid": turn,
        "promptSource": "sdk",
        **more,
    }


def answered(stop: str | None, message: str = "m", model: str = "claude", **more: object) -> Record:
    """Return the record of an answer."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 2, "output_tokens": 5}
    return {
        "type": "assistant",
        "message": {"id": message, "model": model, "stop_reason": stop, "content": [], "usage": usage},
        **more,
    }


STOPPED: Record = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user for tool use]"}]},
    "uuid": "x",
}
GAP = answered("stop_sequence", "gap", "<synthetic>", isApiErrorMessage=False)


async def read(guest: LocalGuest, *records: Record | bytes) -> Remembered:
    """Return what is remembered of a transcript with these records."""
    directory = guest.state / "t"
    place = directory / "projects" / "p"
    place.mkdir(parents=True)
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n" for record in records]
    (place / f"{THREAD}.jsonl").write_bytes(b"".join(lines))
    with anyio.fail_after(20):
        return await remembered(guest, str(directory), THREAD, str(guest.work))


ENDS: dict[str, tuple[tuple[Record, ...], TurnOutcome]] = {
    "answered": ((answered("tool_use"), answered("end_turn")), DONE),
    "at the limit of tokens": ((answered("max_tokens"),), DONE),
    "killed before a word": ((), CUT),
    "killed in a tool": ((answered("tool_use"),), CUT),
    "cut in the middle of a word": ((answered(None, isAbortedMidStream=True), STOPPED), CUT),
    "interrupted in a tool": ((answered("tool_use"), STOPPED), CUT),
    "the model failed": ((answered("stop_sequence", model="<synthetic>", isApiErrorMessage=True),), FAILED),
    "a gap closed at the next start": ((answered("tool_use"), GAP), CUT),
    "a sub-agent answered": ((answered("tool_use"), answered("end_turn", isSidechain=True)), CUT),
}


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("name", ENDS)
async def test_how_a_turn_ended(guest: LocalGuest, name: str) -> None:
    """Completed only by an answer that a model ended itself; what the program puts into a gap is no answer."""
    records, outcome = ENDS[name]
    found = await read(guest, said("a"), answered("end_turn"), said("b"), *records)
    assert [(turn.provider_turn, turn.outcome) for turn in found.turns] == [("a", DONE), ("b", outcome)]


@pytest.mark.guarantee("CONT-11")
async def test_only_what_a_person_said_is_a_turn(guest: LocalGuest) -> None:
    """Results of tools, words of the program, a sub-agent's task and lines that are none are passed over; the last may be half written."""
    result: Record = {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result"}]}, "uuid": "r"}
    meta = said("m", isMeta=True)
    found = await read(
        guest, b"\0\0\0\n", said("a"), result, meta, said("s", isSidechain=True), b"garbage\n[]\n", said("b"), b'{"type":"us'
    )
    assert [turn.provider_turn for turn in found.turns] == ["a", "b"]


@pytest.mark.parametrize(
    "content", ["/x", [{"type": "text", "text": "/x"}, {"type": "text", "text": "<system-reminder>"}]], ids=str
)
async def test_the_digest_is_of_the_persons_own_words(guest: LocalGuest, content: object) -> None:
    """What Jam put behind them is not among them; earlier turns need none."""
    found = await read(guest, said("a"), said("b", content))
    assert [turn.text_digest for turn in found.turns] == [None, sha256(b"/x").hexdigest()]


async def test_what_it_cost_is_counted_once_a_message(guest: LocalGuest) -> None:
    """A message has a record for each of its parts, with the same numbers in each."""
    found = await read(guest, said("a"), answered("tool_use", "m1"), answered("tool_use", "m1"), answered("end_turn", "m2"))
    assert (found.input_tokens, found.output_tokens) == (24, 10)


@pytest.mark.guarantee("CONT-1")
async def test_two_transcripts_of_one_thread_are_none(guest: LocalGuest) -> None:
    """Which of them the program would take is not for Jam to guess."""
    for name in ("p", "q"):
        place = guest.state / "t" / "projects" / name
        place.mkdir(parents=True)
        (place / f"{THREAD}.jsonl").write_text(json.dumps(said("a")) + "\n")
    with pytest.raises(ProviderRefusedError, match="more than one"):
        await remembered(guest, str(guest.state / "t"), THREAD, str(guest.work))
