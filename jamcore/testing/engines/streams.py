"""Bytes in, bytes out."""

from __future__ import annotations

import hashlib
import os

import anyio
import pytest

from jamcore.domain.sandboxes import ExecRefusedError
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, finish, read_until
from jamcore.testing.engines.checks import Topic, check

PIPES_HOLD = 4 << 20
"""More than any pipe between guest and host holds, however it is made."""
STREAM_BYTES = 100 << 20


class StreamTests(EngineTests):
    """Standard input, output and error of a guest process."""

    @pytest.mark.guarantee("ENG-1")
    @check(Topic.BYTES, "A byte that is lost or decoded corrupts a provider's JSON lines and every file that is piped.")
    async def test_bytes_go_in_and_out_exactly(self, box: Box) -> None:
        """Any byte passes in both directions, NUL and what is no text included, and the two outputs stay apart."""
        data = bytes(range(256)) * 4096 + os.urandom(70_000)
        ran = await box.code(
            "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer); sys.stderr.buffer.write(b'\\0err\\xff')",
            stdin=data,
        )
        assert (ran.status.code, ran.out == data, ran.err) == (0, True, b"\0err\xff")

    @check(
        Topic.HALF_CLOSE,
        "Where closing the input closes everything, the answer of a filter is lost; where it does not arrive, the filter waits for ever.",
    )
    async def test_a_closed_input_is_an_end_and_the_answer_still_comes(self, box: Box) -> None:
        """Half-close: the guest reads the end and answers after it."""
        ran = await box.code("import sys; n = len(sys.stdin.buffer.read()); print('read', n)", stdin=b"x" * 70_000)
        assert ran.text == "read 70000"

    @check(Topic.HALF_CLOSE, "A provider is a conversation: an input that ends by itself ends it in the middle of a turn.")
    async def test_input_stays_open_until_it_is_closed(self, box: Box) -> None:
        """A conversation: each line is answered while the input is open."""
        async with box.script("import sys\nfor line in sys.stdin: print('got', line, end='')") as process:
            for word in (b"one\n", b"two\n"):
                await process.stdin.send(word)
                assert await read_until(process, word) == b"got " + word
            assert (await finish(process)).status.ok

    @check(Topic.BACK_PRESSURE, "A writer that hangs on a closed pipe holds a turn until its deadline.")
    async def test_a_guest_that_stops_reading_ends_the_writer(self, box: Box) -> None:
        """Writing to a program that has closed its input is a broken stream, not a hang."""
        async with box.script("import os; os.close(0); print('closed'); import time; time.sleep(60)") as process:
            await read_until(process, b"closed")
            with anyio.fail_after(20), pytest.raises(anyio.BrokenResourceError):
                await process.stdin.send(bytes(PIPES_HOLD))

    @check(Topic.LARGE_STREAMS, "Engines that buffer for a slow reader take the daemon's memory; engines that drop lose evidence.")
    async def test_a_large_stream_is_whole_and_a_slow_reader_holds_the_guest(self, box: Box) -> None:
        """100 MB arrive without a changed byte, and nothing runs ahead of the reader by more than the pipes hold."""
        code = f"""
import hashlib, os, sys
progress, digest, sent = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644), hashlib.sha256(), 0
block = bytes(range(256)) * 256
while sent < {STREAM_BYTES}:
    part = sent.to_bytes(8, "big") + block[8:]
    digest.update(part)
    sys.stdout.buffer.write(part)
    sent += len(part)
    os.pwrite(progress, b"%12d" % sent, 0)
sys.stderr.write(digest.hexdigest())
"""
        async with box.script(code, f"{box.guest_work}/progress") as process:
            progress = box.work / "progress"
            await _until_still(progress)
            assert 0 < int(progress.read_bytes()) < PIPES_HOLD
            digest, size, errors = hashlib.sha256(), 0, b""
            async for chunk in process.stdout:
                digest.update(chunk)
                size += len(chunk)
            async for chunk in process.stderr:
                errors += chunk
            assert (await process.wait()).ok
        assert size == STREAM_BYTES
        assert digest.hexdigest() == errors.decode()

    @check(Topic.BACK_PRESSURE, "Input that is buffered without bound is memory that a guest can take from the host.")
    async def test_a_guest_that_does_not_read_holds_the_writer(self, box: Box) -> None:
        """Nothing is buffered without bound on the host."""
        async with box.script("import time; print('up'); time.sleep(60)") as process:
            await read_until(process, b"up")
            with anyio.move_on_after(0.3) as scope:
                await process.stdin.send(bytes(PIPES_HOLD))
            assert scope.cancelled_caught

    @check(Topic.ARGUMENTS, "Engines that go through a shell or a message of a fixed size cut prompts and paths silently.")
    async def test_long_arguments_and_environments_pass(self, box: Box) -> None:
        """100 KB in one argument and 256 KB of environment arrive; arguments that are no text arrive as the bytes they are."""
        code = "import os, sys; print(len(sys.argv[1]), len(os.environ['V200']), os.fsencode(sys.argv[2]))"
        environment = tuple((f"V{n}", "v" * 1000) for n in range(256))
        argv = (*box.python.argv, "-I", "-S", "-c", code, "a" * 100_000, "\udcff-é-\udc80")
        ran = await box.run(*argv, environment=(*box.python.environment, *environment))
        assert ran.text == f"100000 1000 {os.fsencode(chr(0xDCFF) + '-é-' + chr(0xDC80))!r}", ran.err

    @check(Topic.ARGUMENTS, "What cannot be started must be a refusal that a caller can tell from an exit code.")
    async def test_too_long_and_impossible_arguments_are_refused(self, box: Box) -> None:
        """What no kernel takes is a typed refusal, and the sandbox goes on."""
        for argv in (("echo", "x" * (4 << 20)), ("echo", "a\0b"), ("echo", *("y" * 60_000 for _ in range(60)))):
            with pytest.raises(ExecRefusedError):
                await box.start(*argv)
        with pytest.raises(ExecRefusedError):
            await box.start("echo", environment=(("A", "b\0c"),))
        assert (await box.run("echo", "still here")).text == "still here"


async def _until_still(progress: os.PathLike[str]) -> None:
    """Wait until a counter in a file has stopped: the same for 20 looks in a row, 10 ms apart."""
    with anyio.fail_after(30):
        before, calm = b"", 0
        while calm < 20:
            await anyio.sleep(0.01)
            try:
                with open(progress, "rb") as stream:  # noqa: ASYNC230, PTH123 - twelve bytes of a local file
                    now = stream.read()
            except FileNotFoundError:
                continue
            calm = calm + 1 if now and now == before else 0
            before = now
