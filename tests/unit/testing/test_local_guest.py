"""The guest that is none keeps the port of a real one, so that what a plugin does in it is what it does in a sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jamcore.domain.sandboxes import ExecRefusedError
from jamcore.testing.local_guest import local_guest

LIMIT_S = 20.0


async def test_a_program_that_is_not_there_is_refused_by_both_ways_to_start_it(tmp_path: Path) -> None:
    """With the error of the port, as in a sandbox, and not with one of the system's."""
    absent = (str(tmp_path / "absent"), "--version")
    async with local_guest(tmp_path) as guest:
        with pytest.raises(ExecRefusedError) as refused:
            await guest.run(absent, cwd=str(guest.work), timeout_s=LIMIT_S)
        assert refused.value.program == absent[0]
        with pytest.raises(ExecRefusedError):
            await guest.start(absent, cwd=str(guest.work))


async def test_a_short_command_gets_variables_and_gives_back_its_standard_output(tmp_path: Path) -> None:
    """Only that, and no more of it than was asked for; what it writes to its error output is not among it."""
    script = "import os, sys; sys.stderr.write('warned'); print(os.environ['GIVEN'])"
    async with local_guest(tmp_path, {"GIVEN": "before"}) as guest:
        argv, given = (sys.executable, "-c", script), (("GIVEN", "words"),)
        assert await guest.run(argv, cwd=str(guest.work), timeout_s=LIMIT_S, environment=given) == (0, b"words\n")
        assert await guest.run(argv, cwd=str(guest.work), timeout_s=LIMIT_S, limit=3) == (0, b"bef")
