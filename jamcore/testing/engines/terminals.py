"""Programs on a terminal."""

from __future__ import annotations

import anyio
import pytest

from jamcore.domain.sandboxes import TerminalSize
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, finish, read_until
from jamcore.testing.engines.checks import Topic, check

SIZE = TerminalSize(rows=33, columns=101)
REPORT = """
import os, signal, sys, termios, time
settings = termios.tcgetattr(0)
settings[3] |= termios.NOFLSH  # or the kernel throws away what is written right after an interrupt
termios.tcsetattr(0, termios.TCSANOW, settings)
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # a handler may interrupt a print, not a write
def size(*_): say("size", os.get_terminal_size(0).lines, os.get_terminal_size(0).columns)
def interrupted(*_): say("interrupted"); os._exit(7)
signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGINT, interrupted)
say("tty", all(map(os.isatty, (0, 1, 2))), os.getsid(0) == os.getpid())
open("/dev/tty", "w").write("controlling\\n")
os.write(2, b"to-error\\n")
size()
while True: time.sleep(600)
"""


class TerminalTests(EngineTests):
    """A PTY that the host holds the other end of."""

    @check(
        Topic.TERMINALS,
        "Without a controlling terminal Ctrl-C does nothing; with a fixed size every full-screen program is garbage.",
    )
    async def test_a_terminal_is_the_controlling_one(self, box: Box) -> None:
        """All three streams are it, ``/dev/tty`` is it, its size is right and changes, and Ctrl-C interrupts."""
        async with box.script(REPORT, terminal=SIZE) as process:
            seen = await read_until(process, b"size 33 101")
            assert b"tty True True" in seen
            assert b"controlling" in seen
            assert b"to-error" in seen
            await process.resize(TerminalSize(rows=50, columns=200))
            await read_until(process, b"size 50 200")
            await process.stdin.send(b"\x03")
            await read_until(process, b"interrupted")
            assert (await process.wait()).code == 7
            with pytest.raises(anyio.EndOfStream):
                await process.stderr.receive()
            await process.resize(SIZE)  # it has ended: nothing happens

    @check(Topic.TERMINALS, "A program that finds the daemon's terminal asks questions there that nobody sees.")
    async def test_a_program_on_pipes_has_no_terminal(self, box: Box) -> None:
        """Nothing of the daemon's terminal is there, and resizing it does nothing."""
        code = "import os\ntry: os.open('/dev/tty', os.O_RDWR); print('terminal')\nexcept OSError: print('none')"
        async with box.script(code) as process:
            await process.resize(SIZE)
            assert (await finish(process)).text == "none"

    @check(
        Topic.TERMINALS,
        "A write to a full terminal that nothing can end blocks its session, and the stale bytes run later as commands.",
    )
    async def test_a_terminal_that_nobody_reads_holds_its_writer_and_can_be_ended(self, box: Box) -> None:
        """Typing into a program that does not read waits, is cancelled at once, and the program still ends when it is told to."""
        code = "import time, tty; tty.setraw(0); print('up', flush=True); time.sleep(600)"
        async with box.script(code, terminal=SIZE) as process:
            await read_until(process, b"up")
            with anyio.move_on_after(0.3) as scope:
                await process.stdin.send(bytes(1 << 20))
            assert scope.cancelled_caught
            with anyio.fail_after(20):
                await process.kill_tree()
                assert not (await process.wait()).ok
