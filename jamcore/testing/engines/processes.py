"""Processes: how they begin, what they find, how they end, and everything that they started with them."""

from __future__ import annotations

import signal

import anyio
import pytest

from jamcore.domain.sandboxes import ExecRefusedError, ExitStatus, SandboxGoneError
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, Ran, finish, read_until

DAEMONISE = """
import os, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.setpgid(0, 0)
        os.closerange(0, 3)
        time.sleep(600)
        os._exit(0)
{then}
"""
"""Starts three processes that leave session, group and parent behind. ``then`` is what the leader does after that."""

LIBRARY_SIGNALS = 0b11 << 31
"""Signals 32 and 33 are the C library's own: ``posix_spawn`` leaves them ignored, and no program can set them."""

STATUS_FIELDS = """
for line in open("/proc/self/status"):
    if line.split(":")[0] in ("SigBlk", "SigIgn", "SigCgt"):
        print(line.split()[0], int(line.split()[1], 16))
"""


class ProcessTests(EngineTests):
    """One process and its tree."""

    @pytest.mark.parametrize("code", [0, 1, 127, 255])
    async def test_an_exit_code_arrives(self, box: Box, code: int) -> None:
        """The code is the program's own."""
        assert (await box.run("sh", "-c", f"exit {code}")).status == ExitStatus(code=code, signal=None)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP])
    async def test_a_death_by_signal_is_told_from_a_code(self, box: Box, number: int) -> None:
        """Every signal has its default meaning in a new program, and its number arrives."""
        assert (await box.run("sh", "-c", f"kill -{int(number)} $$; sleep 5; exit 3")).status == ExitStatus(
            code=None, signal=int(number)
        )

    async def test_signals_are_as_a_program_expects_them(self, box: Box) -> None:
        """Nothing is blocked or ignored at the start: shells cannot trap what was ignored, and timers need SIGALRM."""
        ran = await box.run("sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
        found = [int(word, 16) & ~LIBRARY_SIGNALS for word in ran.text.split()[1::2]]
        assert found == [0, 0], ran.text

    async def test_only_the_three_streams_are_open(self, box: Box) -> None:
        """No descriptor of the engine's reaches a guest program."""
        ran = await box.code("import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))")
        assert ran.text == "[0, 1, 2, 3]"  # 3 is the listing's own

    async def test_a_signal_reaches_the_group(self, box: Box) -> None:
        """``signal`` is for the program and what shares its group."""
        async with box.started("sh", "-c", "trap 'echo caught; exit 4' TERM; echo up; while :; do sleep 0.05; done") as process:
            await read_until(process, b"up")
            await process.signal(signal.SIGTERM)
            ran = await finish(process)
            assert (ran.status.code, b"caught" in ran.out) == (4, True)
            await process.signal(signal.SIGTERM)  # it has ended: nothing happens

    async def test_all_waiters_get_the_status(self, box: Box) -> None:
        """The owner and a watcher may both wait."""
        found: list[ExitStatus] = []
        async with box.started("sh", "-c", "exit 9") as process:

            async def wait() -> None:
                found.append(await process.wait())

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(wait)
            assert [status.code for status in (*found, await process.wait())] == [9] * 4

    @pytest.mark.guarantee("ENV-1")
    async def test_directory_and_environment_are_what_was_asked(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        """The program's own variables win over the sandbox's; nothing of the host's environment passes."""
        monkeypatch.setenv("JAM_TEST_AMBIENT", "host-secret")
        ran = await box.run("sh", "-c", "pwd; env", cwd="/jam/work", environment=(("COLOUR", "blue"), ("EMPTY", "")))
        lines = ran.text.splitlines()
        assert lines[0] == "/jam/work"
        assert "COLOUR=blue" in lines
        assert "EMPTY=" in lines
        assert not [line for line in lines if "host-secret" in line or "JAM_TEST_AMBIENT" in line]
        assert any(line.startswith("HOME=") for line in lines)

    async def test_a_program_is_found_on_the_path_without_a_shell(self, box: Box) -> None:
        """Arguments are never split, expanded or read as options of a shell."""
        assert (await box.run("printf", "%s|", "a b", "$HOME", "*", ";", "'\"")).text == "a b|$HOME|*|;|'\"|"

    async def test_what_cannot_start_is_refused_with_the_reason(self, box: Box) -> None:
        """Unknown program, no right to execute, a bad directory: three refusals, and no process."""
        (box.work / "plain").write_text("not a program")
        (box.work / "plain").chmod(0o644)
        for argv, cwd in (
            (("no-such-program-xyz",), "/"),
            (("/jam/work/plain",), "/"),
            (("true",), "/no/such/place"),
            (("true",), "/etc/passwd"),
        ):
            with pytest.raises(ExecRefusedError) as caught:
                await box.start(*argv, cwd=cwd)
            assert caught.value.program == argv[0]
            assert caught.value.reason

    async def test_sixteen_at_once(self, box: Box) -> None:
        """Programs run side by side and nobody gets another's bytes."""
        found: dict[int, Ran] = {}

        async def one(number: int) -> None:
            found[number] = await box.run("sh", "-c", f"cat; echo {number} >&2; exit {number}", stdin=b"%d" % number * 50_000)

        async with anyio.create_task_group() as tasks:
            for number in range(16):
                tasks.start_soon(one, number)
        assert all((ran.status.code, ran.out, ran.err) == (n, b"%d" % n * 50_000, b"%d\n" % n) for n, ran in found.items()), {
            n: (ran.status, len(ran.out)) for n, ran in found.items()
        }
        assert len(found) == 16

    async def test_a_time_limit_ends_the_whole_tree(self, box: Box) -> None:
        """Also what left session, group and parent, and also when the program ignores TERM."""
        then = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        with anyio.fail_after(30):
            ran = await box.code(DAEMONISE.format(then=then), "mark-limit", timeout_s=1.0)
        assert ran.status.timed_out
        assert not ran.status.ok
        assert await box.pids_of("mark-limit") == ()

    async def test_a_program_that_ends_in_time_is_not_timed_out(self, box: Box) -> None:
        """The limit is not a delay."""
        with anyio.fail_after(20):
            assert (await box.run("true", timeout_s=600.0)).status == ExitStatus(code=0, signal=None)

    async def test_kill_tree_ends_what_left_the_session(self, box: Box) -> None:
        """After ``kill_tree`` nothing that the program started is alive, and other programs are untouched."""
        async with (
            box.started("sleep", "601") as other,
            box.script(DAEMONISE.format(then="time.sleep(600)"), "mark-kill") as process,
        ):
            await box.until_marked("mark-kill", 4)
            await process.kill_tree()
            assert await box.pids_of("mark-kill") == ()
            assert (await process.wait()).signal == signal.SIGKILL
            assert len(await box.pids_of("sleep\x00601")) == 1
            await process.kill_tree()  # idempotent
            await other.kill_tree()

    async def test_closing_ends_what_a_finished_program_left(self, box: Box) -> None:
        """A program that daemonises itself and exits leaves nothing once its owner has closed it."""
        async with box.script(DAEMONISE.format(then="sys.exit(0)"), "mark-close") as process:
            assert (await process.wait()).ok
            await box.until_marked("mark-close", 3)
        assert await box.pids_of("mark-close") == ()

    @pytest.mark.parametrize("asked", [True, False])
    async def test_a_guest_that_kills_its_parents_escapes_nothing(self, box: Box, *, asked: bool) -> None:
        """Whatever a program does to the processes above it, its tree still ends as a whole and the sandbox goes on."""
        attack = """
import os, signal, sys, time
sys.stdin.read(1)
above = os.getppid()
while above > 1:
    parent = int(open(f"/proc/{above}/stat").read().rpartition(") ")[2].split()[1])
    try: os.kill(above, signal.SIGKILL)
    except OSError: pass
    above = parent
print("done", flush=True)
time.sleep(600)
"""
        async with box.script(DAEMONISE.format(then=attack), "mark-parent") as process:
            await box.until_marked("mark-parent", 4)
            await process.stdin.send(b"!")
            if asked:
                await process.kill_tree()
            with anyio.fail_after(20):
                await process.wait()
            await box.until_marked("mark-parent", 0)
        assert (await box.run("echo", "on")).text == "on"

    async def test_process_one_ignores_what_guests_send_it(self, box: Box) -> None:
        """No signal from inside ends or stops the sandbox."""
        ran = await box.code(
            "import os\nfor n in range(1, 65):\n try: os.kill(1, n)\n except OSError: pass\nprint('sent')",
        )
        assert ran.text == "sent"
        assert (await box.run("echo", "on")).text == "on"

    async def test_orphans_are_reaped(self, box: Box) -> None:
        """Two hundred orphans leave no zombie."""
        ran = await box.code("""
import os, time
for _ in range(200):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
deadline = time.monotonic() + 10
def zombies():
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try: found += open(f"/proc/{name}/stat").read().rpartition(") ")[2][:1] == "Z"
            except OSError: pass
    return found
while zombies() and time.monotonic() < deadline: time.sleep(0.01)
print(zombies())
""")
        assert ran.text == "0", ran.err

    async def test_a_sandbox_that_ends_takes_its_programs_and_says_so(self, box: Box) -> None:
        """A waiter learns that the sandbox went; closing is still fine; a new program is refused."""
        async with box.started("sleep", "600") as process:
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    with pytest.raises(SandboxGoneError):
                        await process.wait()

                tasks.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                await box.engine.stop(box.name)
            with pytest.raises(anyio.EndOfStream):
                await process.stdout.receive()
            await process.kill_tree()
            await process.signal(signal.SIGTERM)
        with pytest.raises(SandboxGoneError):
            await box.start("true")
