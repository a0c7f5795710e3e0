"""What a killed process may leave in an app directory and beside it, and must not: temporary files, sockets, mounts, half-made packages.

The rules name what is temporary by where Jam makes it, not by age: while no daemon runs, nothing temporary has a reason to be there.
Trees that a guest can write are looked at for Jam's own temporary names only.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from jamcore.testing.guards import mounts_below

TEMPORARY = re.compile(
    r"""(?x) ^(?:
        \..+\.[0-9a-f]{8}\.tmp        # a file on its way to its name
      | \.[0-9a-f-]{36}\.partial      # a package on its way to its name
      | \.[0-9a-f-]{36}\.(?:removed|restoring|taken)  # an export on its way out or in, a workspace on its way back
      | \.archived-.*                # a workspace on its way out
      | \.staging-.*                  # a program that is being unpacked
      | index-.*                      # a snapshot's own index
      | removal-.*                    # a look before a removal
      | .*\.lock                      # git's, of a reference or an index
      | tmp_(?:obj|pack|idx)_.*       # git's, of an object
    )$"""
)
KEPT_LOCKS = frozenset({"jamd.lock"})
"""The daemon's own lock file is meant to stay: its lock is the kernel's."""
GUEST = frozenset({"guest-disk", "workspace-root", "provider-state"})
JAM_IN_GUEST = re.compile(r"^\..+\.[0-9a-f]{8}\.tmp$")


def left_in(app: Path, *beside: Path) -> tuple[str, ...]:
    """Name everything temporary that is still there. Call it when no daemon runs, or when the one that runs has nothing to do.

    Args:
        app: The app directory.
        *beside: Directories in which nothing at all may be: temporary directory, runtime directory.
    """
    found = [
        *(f"mount {point}" for point in sorted(mounts_below((app, *beside)))),
        *(f"temporary {path.relative_to(app)}" for path in _temporary(app)),
        *(f"unpublished pack {path.relative_to(app)}" for path in _unpublished(app)),
        *(f"unfinished restore {path.relative_to(app)}" for path in sorted(app.glob("runtime-hosts/*/recovery/restoring"))),
        *(f"staged {path.relative_to(app)}" for path in sorted(app.glob("runtime-hosts/*/recovery/staging/*"))),
        *(
            f"unfinished creation {path.relative_to(app)}"
            for path in sorted(app.glob("cfg/sandbox-owners/pending-cleanups/*.json"))
        ),
    ]
    for directory in beside:
        found += [f"beside {path}" for path in sorted(directory.rglob("*")) if not path.is_dir()]
    return tuple(found)


def _temporary(app: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(app):
        parts = Path(directory).relative_to(app).parts
        in_guest = len(parts) > 2 and parts[0] == "runtime-hosts" and parts[2] in GUEST
        if parts[:1] == ("toolchains",) and len(parts) > 2:
            names.clear()  # the program's own files
            continue
        for name in sorted((*names, *files)):
            path = Path(directory, name)
            temporary = name not in KEPT_LOCKS and (JAM_IN_GUEST if in_guest else TEMPORARY).match(name)
            if temporary or (not in_guest and stat.S_ISSOCK(path.lstat().st_mode)):
                yield path


def _unpublished(app: Path) -> Iterator[Path]:
    for pack in sorted(app.glob("runtime-hosts/*/recovery/packs/*.pack")):
        if not (pack.parents[1] / "checkpoints" / pack.stem / "complete.json").exists():
            yield pack
