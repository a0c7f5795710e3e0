"""Programs that end when this process does, however it ends: the kernel kills them (``PR_SET_PDEATHSIG``).

The signal is asked for by a small program that then becomes the one that is wanted: code between fork and exec would run in a copy of a
process with threads. ``setpriv`` of util-linux does it in a millisecond; where it is missing, an interpreter of Jam's own does.

The kernel watches the thread that started the program, so that programs are started on the event loop, never in a worker thread. A
daemon that is killed in the millisecond before the signal was asked for leaves the program behind, which then ends at its next write.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SETPRIV = (Path("/usr/bin/setpriv"), Path("/bin/setpriv"))
"""Never looked for in ``PATH``: it runs with the daemon's rights."""

_ASK = """
import ctypes, os, sys
PR_SET_PDEATHSIG, KILL = 1, 9
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0) or os.getppid() != int(sys.argv[1]):
    os._exit(127)
os.execvpe(sys.argv[2], sys.argv[2:], os.environ)
"""


def mortal(argv: Sequence[str], *, env: Mapping[str, str], setpriv: Sequence[Path] = SETPRIV) -> tuple[str, ...]:
    """Return the command that runs ``argv`` so that it ends with this process.

    Raises:
        FileNotFoundError, PermissionError: There is no such program, or it cannot be run: said here, because the small program in between
            could only say it by an exit code.
    """
    program = _found(argv[0], env.get("PATH", os.defpath))
    for path in setpriv:
        if path.is_file() and path.resolve().name == "setpriv":  # another's, such as busybox, does not know the option
            return (str(path), "--pdeathsig", "KILL", "--", program, *argv[1:])
    return (sys.executable, "-I", "-S", "-c", _ASK, str(os.getpid()), program, *argv[1:])


def _found(program: str, path: str) -> str:
    if os.sep in program and not Path(program).is_absolute():
        return program  # seen from the directory that it will run in
    if found := shutil.which(program, path=path):
        return found
    number = errno.EACCES if os.sep in program and Path(program).exists() else errno.ENOENT
    raise OSError(number, os.strerror(number), program)
