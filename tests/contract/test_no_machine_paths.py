"""The repository names no machine: no home directory, no work directory, no private package index."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# Directories of one person's or one builder's machine. Paths that every Linux has (/usr, /etc, /proc, /tmp) are fine, and so are
# the guest's own (/jam, /home/agent).
MACHINE = re.compile(
    rb"(?<![\w.}])/(?:root|work|Users|mnt|builds|workspace)/[\w.]|(?<![\w.])/home/(?!agent\b|jam\b|user\b)\w|[A-Za-z]:\\Users\\|"
    rb"https?://[\w.-]*(?:pypi|artifactory|nexus|devpi)[\w.-]*/simple"
)
EXEMPT = frozenset({"tests/contract/test_no_machine_paths.py"})


@pytest.mark.needs("git")
def test_no_file_names_a_machine(root: Path) -> None:
    """No file of the repository holds a path of one machine or the address of a package index."""
    listed = [
        "git",
        "-c",
        f"safe.directory={root}",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    done = subprocess.run(listed, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to the repository")
    names = {name for name in done.stdout.decode().split("\0") if name and name not in EXEMPT and (root / name).is_file()}
    assert names
    assert [hit for name in sorted(names) for hit in paths_of_machines(name, (root / name).read_bytes())] == []


@pytest.mark.parametrize(
    "text", [b"open('/root/x')", b"see /home/anna/jam", b"C:\\Users\\a", b"https://pypi.corp.example/simple", b"=/work/m"]
)
def test_the_scan_sees(text: bytes) -> None:
    """The scan above finds each form."""
    assert paths_of_machines("x", text)


@pytest.mark.parametrize(
    "text", [b"/home/agent/.x", b"/jam/work/a", b"/usr/bin/git", b"a/work/b", b"/tmp/x", b"/v1/rooms/{ref}/workspace/archive"]
)
def test_the_scan_allows(text: bytes) -> None:
    """Paths of every Linux and of the guest are fine."""
    assert not paths_of_machines("x", text)


def paths_of_machines(name: str, data: bytes) -> list[str]:
    """Return where ``data`` names a machine."""
    return [
        f"{name}:{number} {match[0].decode(errors='replace')}"
        for number, line in enumerate(data.splitlines(), 1)
        for match in MACHINE.finditer(line)
    ]
