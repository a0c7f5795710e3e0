"""Nothing that a guest, a provider or a repository wrote steers the terminal of a person, whichever command shows it (SEC-3)."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from jamcore.cli.table import COMMANDS

pytestmark = pytest.mark.unprivileged

EVIL_JAM = Path(__file__).with_name("evil_jam.py")
SGR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[2?K|\x1b\[1A|\x1b\[\?25[lh]")
"""What Jam itself sends to a terminal: colours, and what shows and erases its own progress."""
ACTS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
PART = re.compile(r"^── (.*)$", re.MULTILINE)


def shown(what: str, directory: Path) -> dict[str, str]:
    """Return what each command shows on a terminal."""
    pid, master = pty.fork()
    if pid == 0:
        variables = {**os.environ, "JAM_HOME": str(directory), "TERM": "xterm-256color", "COLUMNS": "200"}
        os.execve(sys.executable, [sys.executable, "-P", str(EVIL_JAM), what, str(directory)], variables)
    data = bytearray()
    try:
        while chunk := os.read(master, 65536):
            data += chunk
    except OSError:
        pass  # the terminal's other side is closed
    finally:
        os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, data[-2000:]
    text = data.decode().replace("\r\n", "\n")
    _, *rest = PART.split(text)
    return dict(zip(rest[::2], rest[1::2], strict=True))


@pytest.mark.guarantee("SEC-3")
@pytest.mark.parametrize("what", ["answers", "errors"])
def test_no_text_of_any_command_steers_a_terminal(tmp_path: Path, what: str) -> None:
    """Every command, before a daemon whose every text, answer or error, is made of escape sequences: they are seen and do nothing."""
    tmp_path.chmod(0o700)
    parts = shown(what, tmp_path)
    assert {command.name for command in COMMANDS} - set(parts) == {
        "demo",
        "daemon start",
        "daemon stop",
        "plugin new",
        "plugin check",
    }
    for command, text in parts.items():
        left = SGR.sub("", text).replace("\r", "")
        assert not ACTS.search(left), (command, left)
        assert "Traceback" not in left, left
    loud = {name for name, text in parts.items() if "\\x1b" in text}
    assert loud >= {
        "ls",
        "say",
        "attach",
        "run",
        "room show",
        "session inspect",
        "change ls",
        "change show",
        "doctor",
        "provider ls",
    }
