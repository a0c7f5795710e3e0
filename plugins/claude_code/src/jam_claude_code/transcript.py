"""What a thread's transcript says of it, read in the guest: which turns it holds, how they ended, what they cost.

The program names a record of what a person said by the id that Jam gave it, so that id is the turn's. Records of all other kinds are passed
over, as are lines that are none: the program itself drops them in silence.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import anyio

from jam_claude_code.protocol import SYNTHETIC, nonsense, refused
from jamcore.api import GuestLauncher, ProviderTurn, TurnOutcome, entries, identifier, member, number

READ_S = 60.0
"""Reading a transcript: a gigabyte takes seconds."""
ASK_S = 10.0
TRANSCRIPT_BYTES = 2 << 30
"""More than any conversation; a thousand turns took 3 MB."""
TAIL_BYTES = 8 << 20
"""From the end, where a turn's first record is looked for: longer than the longest text of a person in JSON."""
REGISTERED_S = 5.0
"""The program registers itself before it answers its first question; more is patience."""
POLL_S = 0.05

MISSING, DOUBLE, EMPTY, HELD = 40, 41, 42, 43
_WHY: Mapping[int | None, str] = {
    MISSING: "there is no transcript of this thread",
    DOUBLE: "there is more than one transcript of this thread",
    EMPTY: "the transcript of this thread is empty",
    HELD: "another program has this thread open",
}

_FIND = f"""set -- "$1" "$2" "$3" "$1"/projects/*/"$2".jsonl
[ -f "$4" ] && [ ! -L "$4" ] || exit {MISSING}
[ $# -eq 4 ] || exit {DOUBLE}
[ -s "$4" ] || exit {EMPTY}
"""
_READ = _FIND + 'exec cat -- "$4"'
_HOLDS = _FIND + f'tail -c {TAIL_BYTES} -- "$4" | grep -qF -- "$3"'

# What is there of an earlier life is removed, but never from under a program that lives: two writers would lose each other's turns.
_CLEAN = f"""umask 077
for each in "$1"/sessions/*.json; do
    pid=${{each##*/}} pid=${{pid%.json}}
    case $pid in ''|*[!0-9]*) continue ;; esac
    if tr '\\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "=$2 "; then exit {HELD}; fi
done
mkdir -p -- "$1" "$3" || exit 1
for each in "$1"/* "$1"/.[!.]* "$1"/..?* "$3"/* "$3"/.[!.]*; do
    [ "$each" = "$1/projects" ] || rm -rf -- "$each" || exit 1
done
"""


@dataclass
class Remembered:
    """What a transcript holds."""

    turns: tuple[ProviderTurn, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class _Reader:
    turns: list[ProviderTurn] = field(default_factory=list)
    digest: str | None = None
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(record, dict) or record.get("isSidechain") is True:
            return
        if record.get("type") == "user":
            self._said(record)
        elif record.get("type") == "assistant":
            self._answered(record)

    def _said(self, record: Mapping[str, object]) -> None:
        content = member(record, "message", "content")
        if record.get("promptSource") == "sdk" and record.get("isMeta") is not True:
            self.digest = _digest(content)
            self.turns.append(ProviderTurn(provider_turn=identifier(record.get("uuid")), outcome=TurnOutcome.INTERRUPTED))
        elif any(str(block.get("text", "")).startswith("[Request interrupted") for block in entries(content)):
            self._ended(TurnOutcome.INTERRUPTED)

    def _answered(self, record: Mapping[str, object]) -> None:
        message = record.get("message")
        if record.get("isApiErrorMessage") is True:
            self._ended(TurnOutcome.FAILED)
        elif member(message, "model") == SYNTHETIC:
            return  # what the program puts into a gap when it goes on after one
        elif member(message, "stop_reason") in (None, "tool_use", "pause_turn"):
            self._ended(TurnOutcome.INTERRUPTED)
        else:
            self._ended(TurnOutcome.COMPLETED)
        usage = member(message, "usage")
        told = sum(number(member(usage, key)) for key in INPUTS)
        self.spent[identifier(member(message, "id"))] = (told, number(member(usage, "output_tokens")))

    def _ended(self, outcome: TurnOutcome) -> None:
        if self.turns:
            self.turns[-1] = ProviderTurn(provider_turn=self.turns[-1].provider_turn, outcome=outcome)

    def done(self) -> Remembered:
        if self.turns:
            last = self.turns[-1]
            self.turns[-1] = ProviderTurn(provider_turn=last.provider_turn, outcome=last.outcome, text_digest=self.digest)
        told, said = (sum(part) for part in zip((0, 0), *self.spent.values(), strict=True))
        return Remembered(tuple(self.turns), told, said)


INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


async def clean(launcher: GuestLauncher, directory: str, temporary: str, identity: str, cwd: str) -> None:
    """Make a thread's directories, or empty them of everything but its transcript.

    Raises:
        ProviderRefusedError: A program that lives has the thread, or the directories cannot be made.
    """
    code, _ = await _run(launcher, _CLEAN, (directory, identity, temporary), cwd)
    if code != 0:
        raise refused("open", _WHY.get(code, "its directories cannot be made"))


async def holds(launcher: GuestLauncher, directory: str, identity: str, turn: str, cwd: str) -> bool:
    """Whether the transcript holds the text that began a turn."""
    code, _ = await _run(launcher, _HOLDS, (directory, identity, f'"uuid":"{turn}"'), cwd)
    return code == 0


async def registered(launcher: GuestLauncher, directory: str, pid: int, cwd: str) -> str:
    """Return the id of the thread that a running program says it has.

    Raises:
        ProviderProtocolError: It does not say.
    """
    with anyio.move_on_after(REGISTERED_S):
        while True:
            code, output = await launcher.run(("/bin/cat", f"{directory}/sessions/{pid}.json"), cwd=cwd, timeout_s=ASK_S)
            try:
                reported = member(json.loads(output), "sessionId") if code == 0 else None
            except ValueError:
                reported = None
            if isinstance(reported, str):
                return reported
            await anyio.sleep(POLL_S)
    raise nonsense("it does not say which thread it has")


async def remembered(launcher: GuestLauncher, directory: str, identity: str, cwd: str) -> Remembered:
    """Read a thread's transcript.

    Raises:
        ProviderRefusedError: There is none, it is empty, or it holds nothing that a person said.
        ProviderProtocolError: It cannot be read to its end.
    """
    reader = _Reader()
    process = await launcher.start(("/bin/sh", "-c", _READ, "jam-read", directory, identity, ""), cwd=cwd)
    try:
        with anyio.fail_after(READ_S):
            async for line in _lines(process.stdout):
                reader.take(line)
            status = await process.wait()
    except TimeoutError:
        raise nonsense(f"its transcript could not be read within {READ_S:g} s") from None
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()
    if status.code != 0:
        raise refused("resume", _WHY.get(status.code, "its transcript cannot be read"))
    found = reader.done()
    if not found.turns:
        raise refused("resume", "its transcript holds nothing that a person said")
    return found


async def _run(launcher: GuestLauncher, script: str, words: tuple[str, ...], cwd: str) -> tuple[int | None, bytes]:
    return await launcher.run(("/bin/sh", "-c", script, "jam-thread", *words), cwd=cwd, timeout_s=ASK_S)


async def _lines(stream: anyio.abc.ByteReceiveStream) -> AsyncIterator[bytes]:
    rest, read = bytearray(), 0
    while True:
        try:
            chunk = await stream.receive(1 << 20)
        except anyio.EndOfStream:
            break
        read += len(chunk)
        if read > TRANSCRIPT_BYTES:
            raise nonsense(f"a transcript of more than {TRANSCRIPT_BYTES} bytes")
        looked_at = len(rest)
        rest += chunk
        end = rest.rfind(b"\n", looked_at)
        if end >= 0:
            block = bytes(rest[:end])
            del rest[: end + 1]
            for line in block.split(b"\n"):
                yield line
    yield bytes(rest)  # half written, or without an end: read if it can be


def _digest(content: object) -> str | None:
    """Return the digest of what a person said; what Jam added to it stands behind it."""
    blocks = entries(content)
    words = content if isinstance(content, str) else blocks[0].get("text") if blocks else None
    return sha256(words.encode(errors="surrogatepass")).hexdigest() if isinstance(words, str) else None
