"""Gate: the packaged daemon brings up an ordinary room and resumes it after a restart (LIVE-2, KIT-2)."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jamcore.testing.jam_program import Done
from jamcore.testing.live_rooms import ASKED, TURN_S, Words, place
from jamcore.testing.sources import workspace_root

pytestmark = [
    pytest.mark.live("JAM_LIVE_PACKAGED"),
    pytest.mark.needs("provider:codex", "account:codex", "engine:any"),
    pytest.mark.timeout(3600),
]

WORDS = Words("quetzal-7731", "ocelot-2290")
ROOT = workspace_root(Path(__file__).resolve().parent)
KEPT = ("OPENAI_API_KEY", "PIP_", "JAM_WHEEL_DIRECTORY", "HTTP", "http", "NO_PROXY", "no_proxy", "SSL_")
"""What of this person's environment the new one has, by how it begins: how to reach a package index, and the key."""


class Person:
    """A person with a new home who installed Jam from its wheels, and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "environment" / "bin"
        self.environment: Mapping[str, str] = {
            "HOME": str(directory),
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(directory / "run"),
            "LANG": "C.UTF-8",
            **{name: value for name, value in os.environ.items() if name.startswith(KEPT)},
        }
        (directory / "run").mkdir(mode=0o700)
        self._directory = directory

    def run(self, *argv: str) -> Done:
        """Run a program to its end, which has to be a good one."""
        done = subprocess.run(
            argv, cwd=self._directory, env=self.environment, capture_output=True, text=True, timeout=TURN_S, check=False
        )
        assert done.returncode == 0, (argv, done.stdout[-2000:], done.stderr[-2000:])
        return Done(done.returncode, done.stdout, done.stderr)

    def install(self) -> None:
        """Build the wheels of the core and of one plugin, and install them into a new environment."""
        wheels = self._directory / "wheels"
        for project in (ROOT, ROOT / "plugins" / "codex"):
            self.run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(project))
        venv.create(self.bin.parent, with_pip=True)
        constraints = ("-c", str(ROOT / "constraints.txt"))
        self.run(str(self.bin / "pip"), "install", "--quiet", *constraints, *(str(wheel) for wheel in wheels.glob("*.whl")))

    def jam(self, *words: str) -> Done:
        """Type a command."""
        return self.run(str(self.bin / "jam"), *words)

    def json(self, *words: str) -> Any:  # noqa: ANN401 - whatever the command prints
        """Type a command and read the document that it prints."""
        return self.jam(*words, "--json").json


def test_an_installed_daemon_brings_up_a_room_and_resumes_it_after_a_restart(tmp_path: Path) -> None:
    """Nothing of the tree is used: wheels, the pinned program by `jam provider install`, a room, a restart, the same conversation."""
    person = Person(tmp_path)
    person.install()
    where = person.run(
        str(person.bin / "python"), "-c", "import jamcore, jam_codex; print(jamcore.__file__, jam_codex.__file__)"
    ).out
    assert [Path(path).is_relative_to(person.bin.parent) for path in where.split()] == [True, True], where
    try:
        person.jam("provider", "install", "codex")
        said = place()
        options = (("--engine", said.engine), ("--endpoint", said.endpoint), ("--model", said.model))
        room = person.json("room", "new", "codex", *(word for name, value in options if value for word in (name, value)))
        ref = room["room"]["id"]
        person.jam("say", ref, WORDS.told)
        before = person.json("room", "show", ref)["room"]
        assert before["last_turn"]["state"] == "captured"
        pid = person.json("daemon", "status")["health"]["pid"]
        person.jam("daemon", "restart")
        assert person.json("daemon", "status")["health"]["pid"] != pid
        resumed = person.json("resume", ref)
        assert resumed["session"]["provider_identity"] == before["session"]["provider_identity"] is not None
        assert WORDS.spoken in person.jam("say", ref, ASKED).out
    finally:
        person.jam("daemon", "stop")
