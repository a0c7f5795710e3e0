"""Inside a sandbox: real isolation, and exec as it was measured."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.testing.sbx.simulator import Simulator

pytestmark = [pytest.mark.needs("bubblewrap"), pytest.mark.unprivileged]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's simulator, its workspace and a secret of the host are."""
    place = tmp_path_factory.mktemp("guest")
    for name in ("proj", "ref"):
        (place / name).mkdir()
        (place / name / "file.txt").write_text("of the host\n")
    (place / "secret").write_text("nobody's business\n")
    return place


@pytest.fixture(scope="module")
def sbx(place: Path) -> Iterator[Simulator]:
    """One simulator with one sandbox, for the tests that only look."""
    with Simulator(place / "sbx", "0.47", term_s=0.3) as made:
        made.said("create", "--name", "one", "-e", "OWN=said", "shell", str(place / "proj"), f"{place / 'ref'}:ro")
        yield made


def shell(sbx: Simulator, script: str) -> str:
    """Run a script in the guest."""
    return sbx.said("exec", "one", "sh", "-c", script)


# ---------------------------------------------------------------------------------------------------- isolation


def test_nothing_of_the_host_is_there_but_what_was_given(sbx: Simulator, place: Path) -> None:
    """Of the directory that holds the workspaces the guest sees these two; the system is read-only; /root, /work and others are absent."""
    assert shell(sbx, f"ls {place}") == "AGENTS.md\nproj\nref\n"
    assert shell(sbx, f"cat {place}/secret 2>&1; true").endswith("No such file or directory\n")
    assert shell(sbx, "ls /home") == "agent\n"
    assert shell(sbx, "for d in / /usr /etc /opt; do touch $d/x 2>/dev/null && echo $d; done; true") == ""
    here = Path(__file__).resolve()
    assert shell(sbx, f"cat {here} 2>/dev/null; true") == ""


def test_a_workspace_is_at_its_path_and_read_only_where_it_was_said(sbx: Simulator, place: Path) -> None:
    """Each PATH at the same absolute path, `:ro` enforced [M, CEZ]; what is made belongs to the person outside [CEZ, DEN]."""
    assert (
        shell(sbx, f"pwd; cat {place}/ref/file.txt; echo made >made; stat -c %u:%g made")
        == f"{place}/proj\nof the host\n1000:1000\n"
    )
    assert (place / "proj" / "made").read_text() == "made\n"
    assert (place / "proj" / "made").stat().st_uid == os.geteuid()
    assert shell(sbx, f"touch {place}/ref/x 2>&1; true").endswith("Read-only file system\n")


def test_no_process_of_the_host_is_there(sbx: Simulator) -> None:
    """Process 1 is the sandbox's own, and nothing of the host can be signalled."""
    found = [int(word) for word in shell(sbx, "ls /proc | grep '^[0-9]'").split()]
    assert os.getpid() not in found
    assert len(found) < 10
    assert "init.py" in shell(sbx, "tr '\\0' ' ' </proc/1/cmdline")
    assert shell(sbx, f"kill -0 {os.getpid()} 2>&1; true").rstrip().endswith("No such process")


def test_there_is_no_network_but_the_proxy(sbx: Simulator) -> None:
    """Neither a service of the host's loopback nor any other interface is there; names are not resolved; the proxy's port answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert sbx.run("exec", "one", "python3", "-c", reach).stderr.strip().endswith(b"Connection refused")
    assert shell(sbx, "cut -d: -f1 /proc/net/dev | tail -n +3").split() == ["lo"]
    assert sbx.run("exec", "one", "getent", "hosts", "example.com").returncode == 2
    assert "gateway.docker.internal" in shell(sbx, "getent hosts gateway.docker.internal")
    shell(sbx, "python3 -c \"import socket; socket.create_connection(('gateway.docker.internal', 3128), 2)\"")


def test_the_environment_is_the_sandbox_s_own(sbx: Simulator) -> None:
    """Nothing of the caller's, nor of the daemon's [CAP, CEZ, DEN]; the sandbox's own variables, and placeholders in place of keys."""
    done = sbx.run("exec", "-e", "MORE=1", "one", "env", OPENAI_API_KEY="sk-real", BAND_TOKEN="x", AMBIENT="leak")
    found = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert "leak" not in found.values()
    assert "sk-real" not in found.values()
    assert not [name for name in found if name.startswith(("BAND_", "PYTHON", "LD_", "AMBIENT", "XDG_"))]
    assert (found["HOME"], found["OWN"], found["MORE"]) == ("/home/agent", "said", "1")
    assert found["SANDBOX_NAME"] == found["SANDBOX_VM_ID"] == "one"
    assert found["SANDBOX_ID"] == sbx.json("ls", "--json")["sandboxes"][0]["id"]
    assert found["HTTP_PROXY"] == found["HTTPS_PROXY"] == "http://gateway.docker.internal:3128"
    assert found["NO_PROXY"] == "localhost,127.0.0.1,::1,gateway.docker.internal"
    assert found["OPENAI_API_KEY"] == found["ANTHROPIC_API_KEY"] == "proxy-managed"
    assert found["GH_TOKEN"] == "gho_sbxproxymanaged000000000000000000000"
    assert "SSH_AUTH_SOCK" not in found
    assert shell(sbx, "id -un; id -u; id -g") == "agent\n1000\n1000\n"


def test_an_agent_s_own_files_are_there(sbx: Simulator, place: Path) -> None:
    """Codex's `auth.json` and `config.toml` with placeholders [SDK, LOOP]; instructions above the workspace, not on the host [CEZ, M]."""
    (place / "other").mkdir()
    sbx.said("create", "--name", "two", "codex", str(place / "other"))
    script = "cat ~/.codex/auth.json; grep approval ~/.codex/config.toml; ls .."
    assert sbx.said("exec", "two", "sh", "-c", script) == (
        '{"OPENAI_API_KEY":"proxy-managed"}approval_policy = "never"\nAGENTS.md\nother\n'
    )
    assert not (place / "AGENTS.md").exists()
    sbx.said("rm", "-f", "two")


# ---------------------------------------------------------------------------------------------------- exec


def test_exit_codes_pass(sbx: Simulator) -> None:
    """0, 1, 42, 130, 137 and 143 were measured [DEN, CEZ, LOOP]; a missing program is 127."""
    for code in (0, 1, 42, 130):
        assert sbx.run("exec", "one", "sh", "-c", f"exit {code}").returncode == code
    assert sbx.run("exec", "one", "sh", "-c", "kill -KILL $$").returncode == 137
    assert sbx.run("exec", "one", "sh", "-c", "kill -TERM $$").returncode == 143
    assert sbx.run("exec", "one", "nonsense").returncode == 127
    assert sbx.run("exec", "-w", "/nonsense", "one", "true").returncode == 127


def test_the_command_is_not_read_by_a_shell_nor_for_flags(sbx: Simulator) -> None:
    """Argv is executed directly [M, DEN]; flags precede the sandbox, and a `--` before the command is taken away [RN, DEN]."""
    assert sbx.said("exec", "one", "echo", "$HOME", "-x", "--json") == "$HOME -x --json\n"
    assert sbx.said("exec", "one", "--", "echo", "--", "a") == "-- a\n"
    assert "unknown shorthand flag: 'x'" in sbx.failed("exec", "-x", "one", "true")
    assert "not supported" in sbx.failed("exec", "-d", "one", "true")


def test_streams_are_apart_and_byte_clean_and_stdin_needs_no_flag(sbx: Simulator) -> None:
    """All byte values both ways, a binary stderr apart, EOF, exit 23 [MC]; stdin reaches the command without `-i` [DEN]."""
    data = bytes(range(256)) * 4000
    script = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.buffer.write(d[::-1]); sys.exit(23)"
    done = sbx.run("exec", "one", "python3", "-c", script, stdin=data)
    assert (done.returncode, done.stdout, done.stderr) == (23, data, data[::-1])


def test_a_terminal_merges_and_without_one_everything_is_dropped(sbx: Simulator) -> None:
    """With `-t` merged; `-t` without a real TTY drops ALL output but keeps the exit code [DEN, CEZ]."""
    done = sbx.run("exec", "-t", "one", "sh", "-c", "tty; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"", b"")
    master, slave = pty.openpty()
    process = sbx.popen("exec", "-it", "one", "sh", "-c", "tty; echo err >&2; exit 7", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = _read_all(master)
    assert process.wait() == 7
    assert seen.splitlines() == [b"/dev/pts/0", b"err"]


def _read_all(master: int) -> bytes:
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:
        pass  # the other side is closed
    os.close(master)
    return seen


def test_what_is_left_running_does_not_hold_the_caller(sbx: Simulator) -> None:
    """It stays until the sandbox stops."""
    assert shell(sbx, "sleep 321 & echo begun") == "begun\n"
    assert "sleep 321" in shell(sbx, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    shell(sbx, "pkill -f 'sleep 32[1]'; true")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_caller_that_is_told_to_end_fails_late_and_the_program_goes_on(sbx: Simulator, number: int) -> None:
    """Client exits 1 with `inspect exec: context deadline exceeded`, up to 29 s later [DEN, CEZ, MC]; the guest process stays."""
    _alone(sbx, number, 1, b"error: inspect exec: context deadline exceeded\n")


def test_a_caller_that_is_killed_leaves_the_program_alone(sbx: Simulator) -> None:
    """SIGKILL 137 [DEN, CEZ]; what it prints afterwards breaks nothing, and its stdin ends."""
    _alone(sbx, signal.SIGKILL, -9, b"")


def _alone(sbx: Simulator, number: int, code: int, said: bytes) -> None:
    script = "trap 'echo x' PIPE; echo begun; while sleep 0.05; do echo more; echo alive >/home/agent/pulse; done"
    caller = sbx.popen("exec", "one", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert caller.stdout
    assert caller.stdout.readline() == b"begun\n"
    caller.send_signal(number)
    _, err = caller.communicate(timeout=60)
    assert caller.returncode == code
    assert err == said
    shell(sbx, "rm -f /home/agent/pulse")
    deadline = time.monotonic() + 30
    while shell(sbx, "cat /home/agent/pulse 2>/dev/null; true") != "alive\n":
        assert time.monotonic() < deadline
    shell(sbx, "pkill -f 'ech[o] begun'; true")
