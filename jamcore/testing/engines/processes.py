"""Processes: how they begin, what they find, how they end, and everything that they started with them."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import ExecRefusedError, ExitStatus, Isolation, Presence, SandboxGoneError
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, Ran, finish, read_until
from jamcore.testing.engines.checks import Topic, check

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
    @check(Topic.EXITS, "A swallowed exit code turns a failed test run into evidence of success.")
    async def test_an_exit_code_arrives(self, box: Box, code: int) -> None:
        """The code is the program's own."""
        assert (await box.run("sh", "-c", f"exit {code}")).status == ExitStatus(code=code, signal=None)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP])
    @check(Topic.EXITS, "137 may be a program's own answer; a kill is not.")
    async def test_a_death_by_signal_is_told_from_a_code(self, box: Box, number: int) -> None:
        """Every signal has its default meaning in a new program, and its number arrives."""
        assert (await box.run("sh", "-c", f"kill -{int(number)} $$; sleep 5; exit 3")).status == ExitStatus(
            code=None, signal=int(number)
        )

    @check(
        Topic.EXITS, "A shell cannot trap what was ignored at its start, and a blocked SIGALRM makes time limits of tools useless."
    )
    async def test_signals_are_as_a_program_expects_them(self, box: Box) -> None:
        """Nothing is blocked or ignored at the start: shells cannot trap what was ignored, and timers need SIGALRM."""
        ran = await box.run("sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
        found = [int(word, 16) & ~LIBRARY_SIGNALS for word in ran.text.split()[1::2]]
        assert found == [0, 0], ran.text

    @check(Topic.EXITS, "A descriptor that leaks into a guest is a way out of it, and keeps files and sockets open for ever.")
    async def test_only_the_three_streams_are_open(self, box: Box) -> None:
        """No descriptor of the engine's reaches a guest program."""
        ran = await box.code("import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))")
        assert ran.text == "[0, 1, 2, 3]"  # 3 is the listing's own

    @check(Topic.EXITS, "An interrupt that reaches the shell alone leaves the build that it runs.")
    async def test_a_signal_reaches_the_group(self, box: Box) -> None:
        """``signal`` is for the program and what shares its group."""
        child = "trap 'echo child-caught; exit 0' TERM; echo up; i=0; while [ $i -lt 100 ]; do i=$((i+1)); sleep 0.05; done"
        leader = f"trap 'echo caught; exit 4' TERM; ({child}) & while :; do sleep 0.05; done"
        async with box.started("sh", "-c", leader) as process:
            await read_until(process, b"up")
            await process.signal(signal.SIGTERM)
            ran = await finish(process)
            assert (ran.status.code, sorted(ran.text.split())) == (4, ["caught", "child-caught"])
            await process.signal(signal.SIGTERM)  # it has ended: nothing happens

    @check(Topic.EXITS, "The second waiter of many engines hangs, or is told that there is no such process.")
    async def test_all_waiters_get_the_status(self, box: Box) -> None:
        """Whoever waits gets the status, at the same time or later."""
        found: list[ExitStatus] = []
        async with box.started("sh", "-c", "exit 9") as process:

            async def wait() -> None:
                found.append(await process.wait())

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(wait)
            assert [status.code for status in (*found, await process.wait())] == [9] * 4

    @pytest.mark.guarantee("ENV-1")
    @check(Topic.DIRECTORY, "A wrong directory is work in the wrong repository; a variable of the host may be a credential.")
    async def test_directory_and_environment_are_what_was_asked(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        """The program's own variables win over the sandbox's; nothing of the host's environment passes."""
        monkeypatch.setenv("JAM_TEST_AMBIENT", "host-secret")
        ran = await box.run("sh", "-c", "pwd; env", cwd=box.guest_work, environment=(("COLOUR", "blue"), ("EMPTY", "")))
        lines = ran.text.splitlines()
        assert lines[0] == box.guest_work
        assert "COLOUR=blue" in lines
        assert "EMPTY=" in lines
        assert not [line for line in lines if "host-secret" in line or "JAM_TEST_AMBIENT" in line]
        assert any(line.startswith("HOME=") for line in lines)

    @check(Topic.ARGUMENTS, "A shell in between runs what a file name says.")
    async def test_a_program_is_found_on_the_path_without_a_shell(self, box: Box) -> None:
        """Arguments are never split, expanded or read as options of a shell."""
        assert (await box.run("printf", "%s|", "a b", "$HOME", "*", ";", "'\"")).text == "a b|$HOME|*|;|'\"|"

    @check(Topic.DIRECTORY, "A command in a directory that was deleted was seen to report a false pass.")
    async def test_what_cannot_start_is_refused_with_the_reason(self, box: Box) -> None:
        """Unknown program, no right to execute, a bad or deleted directory: refusals, and no process."""
        (box.work / "plain").write_text("not a program")
        (box.work / "plain").chmod(0o644)
        (box.work / "deleted").mkdir(mode=0o755)
        (box.work / "deleted").rmdir()
        for argv, cwd in (
            (("no-such-program-xyz",), "/"),
            ((f"{box.guest_work}/plain",), "/"),
            (("true",), "/no/such/place"),
            (("true",), "/etc/passwd"),
            (("true",), f"{box.guest_work}/deleted"),
        ):
            with pytest.raises(ExecRefusedError) as caught:
                await box.start(*argv, cwd=cwd)
            assert caught.value.program == argv[0]
            assert caught.value.reason

    @check(Topic.AT_ONCE, "Engines with one channel for all programs mix their bytes or exhaust their threads.")
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

    @check(Topic.TIME_LIMITS, "Limits were seen to end the client, and the program went on in the sandbox.")
    async def test_a_time_limit_ends_the_whole_tree(self, box: Box) -> None:
        """A time limit ends what left session, group and parent too, and programs that ignore TERM."""
        then = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        code = DAEMONISE.format(then=then)
        argv = (*box.python.argv, "-I", "-S", "-c", code, box.mark("limit"))
        async with box.started(*argv, environment=box.python.environment, timeout_s=1.0) as process:
            with anyio.fail_after(30):
                status = await process.wait()
            assert status.timed_out
            assert not status.ok
            with anyio.fail_after(10):  # not by its owner, who has not closed it
                await box.until_marked(box.mark("limit"), 0)

    @check(Topic.TIME_LIMITS, "A limit that is waited for makes every call as slow as its bound.")
    async def test_a_program_that_ends_in_time_is_not_timed_out(self, box: Box) -> None:
        """A program that ends before its limit is answered at once, with its own status."""
        with anyio.fail_after(20):
            assert (await box.run("true", timeout_s=600.0)).status == ExitStatus(code=0, signal=None)

    @check(Topic.TREES, "What leaves its session lives on: dozens of databases were found running days after their sandboxes.")
    async def test_kill_tree_ends_what_left_the_session(self, box: Box) -> None:
        """After ``kill_tree`` nothing that the program started is alive, and other programs are untouched."""
        async with (
            box.sleeper("other") as other,
            box.script(DAEMONISE.format(then="time.sleep(600)"), box.mark("kill")) as process,
        ):
            await box.until_marked(box.mark("kill"), 4)
            await process.kill_tree()
            assert await box.pids_of(box.mark("kill")) == ()
            assert (await process.wait()).signal == signal.SIGKILL
            assert len(await box.pids_of(other)) == 1
            await process.kill_tree()  # idempotent

    @check(Topic.TREES, "A program that ends may leave others, which hold files and memory for nobody.")
    async def test_closing_ends_what_a_finished_program_left(self, box: Box) -> None:
        """A program that daemonises itself and exits leaves nothing once its owner has closed it."""
        async with box.script(DAEMONISE.format(then="sys.exit(0)"), box.mark("close")) as process:
            assert (await process.wait()).ok
            await box.until_marked(box.mark("close"), 3)
        assert await box.pids_of(box.mark("close")) == ()

    @pytest.mark.parametrize("asked", [True, False])
    @check(
        Topic.TREES,
        "Where ending a tree depends on a process that the guest can kill, nothing is ended.",
        isolation=Isolation.NAMESPACE,
    )
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
        async with box.script(DAEMONISE.format(then=attack), box.mark("parent")) as process:
            await box.until_marked(box.mark("parent"), 4)
            await process.stdin.send(b"!")
            if asked:
                await process.kill_tree()
            with anyio.fail_after(20):
                await process.wait()
            await box.until_marked(box.mark("parent"), 0)
        assert (await box.run("echo", "on")).text == "on"

    @check(
        Topic.TREES,
        "A guest that ends its sandbox by a signal takes the sessions of others with it.",
        isolation=Isolation.NAMESPACE,
    )
    async def test_process_one_ignores_what_guests_send_it(self, box: Box) -> None:
        """No signal from inside ends or stops the sandbox."""
        ran = await box.code(
            "import os\nfor n in range(1, 65):\n try: os.kill(1, n)\n except OSError: pass\nprint('sent')",
        )
        assert ran.text == "sent"
        assert (await box.run("echo", "on")).text == "on"

    @check(Topic.ZOMBIES, "A process 1 that does not reap fills the table: 1,800 zombies in minutes, then nothing can be started.")
    async def test_orphans_are_reaped(self, box: Box) -> None:
        """Two hundred orphans leave no zombie."""
        ran = await box.code("""
import os, time
orphans = []
for _ in range(200):
    back, tell = os.pipe()
    if os.fork() == 0:
        pid = os.fork()
        if pid: os.write(tell, b"%d" % pid)
        os._exit(0)
    orphans.append(int(os.read(back, 20))); os.close(back); os.close(tell)
    os.wait()
deadline = time.monotonic() + 10
def zombies():
    found = 0
    for pid in orphans:
        try: found += open(f"/proc/{pid}/stat").read().rpartition(") ")[2][:1] == "Z"
        except OSError: pass
    return found
while zombies() and time.monotonic() < deadline: time.sleep(0.01)
print(zombies())
""")
        assert ran.text == "0", ran.err

    @check(Topic.GONE, "A waiter that is told nothing waits until its deadline; one that is told 'exit 0' records a success.")
    async def test_a_sandbox_that_ends_takes_its_programs_and_says_so(self, box: Box) -> None:
        """A waiter learns that the sandbox went; closing is still fine; a new program is refused."""
        told: list[ExitStatus | None] = []
        async with box.started("sleep", "600") as process:
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    try:
                        told.append(await process.wait())
                    except SandboxGoneError:
                        told.append(None)

                tasks.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                await box.engine.stop(box.name)
            assert told == [None]
            with pytest.raises(anyio.EndOfStream):
                await process.stdout.receive()
            await process.kill_tree()
            await process.signal(signal.SIGTERM)
        with pytest.raises(SandboxGoneError):
            await box.start("true")

    @check(Topic.AT_ONCE, "One hung program was seen to block every listing, and a lock over all sandboxes every other command.")
    async def test_a_program_that_hangs_blocks_nobody(self, box: Box, tmp_path: Path) -> None:
        """With a program whose output nobody reads, presence, inventory, other programs and other sandboxes answer."""
        other = self.make_spec(tmp_path, "jam-beside")
        async with box.script("import os\nwhile True: os.write(1, bytes(65536))") as process:
            await process.stdout.receive()
            with anyio.fail_after(30):
                assert await box.engine.presence(box.name) is Presence.RUNNING
                await box.engine.create(other)
                assert [item.name for item in await box.engine.inventory()] == sorted((box.name, other.name))
                assert (await self.box_of(box.engine, other).run("echo", "beside")).text == "beside"
                assert (await box.run("echo", "within")).text == "within"

    @check(
        Topic.USERS,
        "A home that its user cannot write breaks every provider, and a user that changes between two programs breaks git.",
    )
    async def test_one_user_runs_everything_and_owns_its_home(self, box: Box) -> None:
        """Every program runs as the same user, whose home is there, is its own and can be written."""
        script = "id -u; test -d ~ && test -O ~ && echo x > ~/probe && test -O ~/probe && echo own"
        first, second = await box.run("sh", "-c", script), await box.run("sh", "-c", script)
        assert first.text == second.text
        assert first.text.split()[1:] == ["own"], first

    @check(
        Topic.USERS,
        "A file that a guest leaves on the host as root's, set-id, is root for whoever runs it.",
        isolation=Isolation.NAMESPACE,
    )
    @pytest.mark.guarantee("SEC-1")
    async def test_guests_are_nobody_special_inside_or_outside(self, box: Box) -> None:
        """A guest is not root, and what it makes in a mount is not root's on the host."""
        assert (await box.run("id", "-u")).text != "0"
        assert (await box.run("sh", "-c", f"echo x > {box.guest_work}/made")).status.ok
        assert (box.work / "made").stat().st_uid != 0
