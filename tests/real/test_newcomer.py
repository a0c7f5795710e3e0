"""What a newcomer meets on the way, each made for real: every error says what happened, why, and what to do next."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.cli.exits import Exit
from jamcore.sandbox.toolchain import this_machine
from jamcore.system.git import GIT_PATH
from jamcore.testing.archives import make_wheel
from jamcore.testing.daemon import place_toolchain
from jamcore.testing.jam_program import Done

ROOT = Path(__file__).parents[2]
COMMAND_S = 60.0
NO_NAMESPACES = (
    "unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "--", "/bin/sh", "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"', "sh",
)  # fmt: skip
"""As an ordinary user where no further user namespace can be made: the kernel's own refusal, as where a distribution forbids them."""
NO_GIT = (
    "unshare", "--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c",
    f'for at in $(echo {GIT_PATH} | tr : " "); do [ ! -e $at/git ] || mount --bind /dev/null $at/git || exit 9; done; exec "$@"', "sh",
)  # fmt: skip
"""Where git is covered by something that cannot be run."""


def possible(within: tuple[str, ...]) -> bool:
    """Whether such a place can be made here."""
    try:
        return subprocess.run((*within, "/bin/true"), capture_output=True, timeout=COMMAND_S, check=False).returncode == 0
    except OSError:
        return False


class Newcomer:
    """A person with a new home, nothing of Jam in it, and no variable of Jam's."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.app = self.home / ".local" / "share" / "jam"
        self._private = place / "private"
        for directory in (self.home, self._private):
            directory.mkdir(mode=0o700)

    def jam(self, *words: str, within: tuple[str, ...] = (), at: Path | None = None, **more: str) -> Done:
        """Run ``jam`` from a directory, and within a place that lacks something."""
        environment = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "XDG_RUNTIME_DIR": str(self._private),
            "TMPDIR": str(self._private),
            "LANG": "C.UTF-8",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},  # where the Jam under test lies
            **more,
        }
        argv = (*within, sys.executable, "-P", "-m", "jamcore.cli.main", *words)
        done = subprocess.run(
            argv, cwd=at or self.home, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Newcomer]:
    """A newcomer; no daemon of theirs is left."""
    found = Newcomer(tmp_path)
    yield found
    found.jam("daemon", "stop")


def test_before_anything_runs(person: Newcomer) -> None:
    """Commands that start nothing say what does, and the first one that needs the daemon starts it, in one line."""
    for words in (("daemon", "status"), ("daemon", "logs"), ("daemon", "stop")):
        done = person.jam(*words)
        assert done.status == (Exit.UNREACHABLE if words[1] == "status" else Exit.OK), done
    assert "hint: Start it with `jam daemon start`; most commands do so themselves." in person.jam("daemon", "status").err
    listed = person.jam("ls")
    assert listed.status == Exit.OK
    assert listed.err.splitlines()[0] == "starting the daemon …"
    assert "Open one: jam room new AGENT" in listed.err


def test_a_wrong_directory(person: Newcomer, tmp_path: Path) -> None:
    """One without a repository, one that is not there, and a repository without a commit: each is named with what to do."""
    empty = tmp_path / "empty"
    empty.mkdir()
    told = person.jam("run", "codex", "fix it", "--repo", ".", at=empty)
    assert told.status == Exit.REFUSED
    assert "(repository.not_a_repository)" in told.err
    assert f"path: {empty}\n" in told.err
    assert "hint: Run `git init` there" in told.err
    told = person.jam("run", "codex", "fix it", "--repo", "nowhere", at=empty)
    assert told.status == Exit.REFUSED
    assert f"path: {empty / 'nowhere'}\n" in told.err
    subprocess.run(("git", "init", "-q", str(empty)), check=True, capture_output=True)
    told = person.jam("run", "codex", "fix it", "--repo", ".", at=empty)
    assert "(repository.no_commit)" in told.err
    assert "hint: Commit something first" in told.err
    told = person.jam("run", "codx", "fix it", at=empty)
    assert "known: " in told.err


@pytest.mark.anyio
@pytest.mark.needs("codex", "bubblewrap")
async def test_no_key(person: Newcomer) -> None:
    """Without the program it is the program that is missing; with it the key; the hints are whole commands."""
    told = person.jam("room", "new", "codex")
    assert told.status == Exit.REFUSED
    missing = next(code for code in ("toolchain.missing", "credential.missing") if code in told.err)
    assert re.search(r"hint: Run `jam (provider install codex|credential set \w+)`", told.err), missing
    await place_toolchain(person.app, "codex")
    told = person.jam("room", "new", "codex")
    assert told.status == Exit.REFUSED
    assert "(credential.missing)" in told.err
    name = re.search(r"hint: Run `jam credential set (\w+)`", told.err)
    assert name is not None, told.err
    assert f"credential {name[1]}: not set" in person.jam("doctor").out
    assert person.jam("credential", "set", name[1], "sk-on-the-command-line").status == Exit.USAGE, "never as an argument"


TABLE = """
[providers.mine]
family = "acp"
argv = ["{{tools_root}}/bin/good"]
endpoint_paths = ["POST /v1/messages"]
toolchain = {{ distribution = "good-bin", version = "1.0", root = "good_bin/tree", program = "bin/good", executables = ["bin/good"], \
wheels = [{{ platform = "{platform}", sha256 = "{sha256}" }}] }}
"""


@pytest.mark.needs("bubblewrap")
def test_a_program_that_is_broken_or_gone(person: Newcomer, tmp_path: Path) -> None:
    """The doctor sees it, what fails of it names the command that mends it, and that command does."""
    wheel = make_wheel(tmp_path / "wheels", {"good_bin/tree/bin/good": b"#!/bin/sh\nexit 7\n"})
    person.app.mkdir(parents=True, mode=0o700)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (person.app / "config.toml").write_text(TABLE.format(platform=this_machine(), sha256=digest))
    words = ("provider", "install", "mine")
    assert "mine 1.0: installed\n" in person.jam(*words, JAM_WHEEL_DIRECTORY=str(tmp_path / "wheels")).out
    assert "ok   program of mine: 1.0 installed\n" in person.jam("doctor").out
    program = person.app / "toolchains/mine/1.0/good_bin/tree/bin/good"
    program.write_bytes(b"garbage")
    gap = "gap  program of mine: its program good_bin/tree/bin/good is not what was installed\n     → Run `jam provider install mine`."
    assert gap in person.jam("doctor").out
    told = person.jam("room", "new", "mine", "--name", "one", "--endpoint", "http://127.0.0.1:9")
    assert "(engine.exec_refused)" in told.err
    assert "`jam provider install mine`" in told.err
    assert "mine 1.0: installed\n" in person.jam(*words).out
    assert "mine 1.0: was installed already\n" in person.jam(*words).out
    shutil.rmtree(person.app / "toolchains/mine")
    told = person.jam("resume", "one")
    assert "(toolchain.missing)" in told.err
    assert "hint: Run `jam provider install mine`." in told.err


def test_a_program_that_jam_does_not_bring(person: Newcomer) -> None:
    """The doctor has a row for it, which says who brings it and where a sandbox sees it."""
    (row,) = [line for line in person.jam("doctor").out.splitlines() if " program of cursor: " in line]
    assert "below /usr, or in the engine's image" in row


@pytest.mark.guarantee("CAP-1")
def test_user_namespaces_are_forbidden(person: Newcomer) -> None:
    """The setting that forbids them is named with the command that allows them, and nothing runs without a sandbox instead."""
    if not possible(NO_NAMESPACES):
        pytest.skip("needs a user namespace to forbid further ones in")
    looked = person.jam("doctor", within=NO_NAMESPACES)
    assert looked.status == Exit.NOT_WELL, looked
    assert "gap  engine bubblewrap: user namespaces are refused here\n     → As root: sysctl -w " in looked.out
    told = person.jam("room", "new", "codex", within=NO_NAMESPACES)
    assert told.status == Exit.REFUSED
    assert "(engine.unavailable)" in told.err
    assert "reason: user namespaces are refused here" in told.err
    assert "sysctl -w user.max_user_namespaces=" in told.err
    assert "jam doctor" in told.err
    assert person.jam("ls", "--json", within=NO_NAMESPACES).json == []
    assert person.jam("daemon", "stop", within=NO_NAMESPACES).status == Exit.OK


def test_no_git(person: Newcomer, tmp_path: Path) -> None:
    """The doctor and the run say that it is missing and how to get it."""
    if not possible(NO_GIT):
        pytest.skip("needs a namespace to cover git in")
    repository = tmp_path / "repository"
    subprocess.run(("git", "init", "-q", str(repository)), check=True, capture_output=True)
    looked = person.jam("doctor", within=NO_GIT)
    assert re.search(r"gap  git: .*\n     → Install git", looked.out), looked
    told = person.jam("room", "new", "codex", "--engine", "local", "--repo", ".", within=NO_GIT, at=repository)
    assert told.status == Exit.REFUSED, told
    assert "(repository.git_missing)" in told.err
    assert "hint: Install git" in told.err
    assert person.jam("daemon", "stop", within=NO_GIT).status == Exit.OK


def test_an_old_python(tmp_path: Path) -> None:
    """The metadata makes pip refuse every distribution of the tree, and `make` says which Python it needs and how to name one."""
    for project in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        assert tomllib.loads(project.read_text(encoding="utf-8"))["project"]["requires-python"] == ">=3.11", project
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    for name in (
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        *(str(p.relative_to(ROOT)) for p in ROOT.glob("plugins/*/pyproject.toml")),
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    programs.mkdir()
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # what an older Python does with the question
    old.chmod(0o755)
    make = shutil.which("make")
    if make is None:
        pytest.skip("needs make")
    done = subprocess.run(
        (make, "demo"), cwd=tree, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    assert done.returncode != 0
    assert "Jam needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3" in done.stderr
    assert not (tree / ".venv").exists()
