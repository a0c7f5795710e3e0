"""Where an app directory is, and the name of the file in it that says where its daemon listens. Imports next to nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

RECORD = "daemon.json"
HOME_VARIABLE = "JAM_HOME"
RECORD_BYTES = 64 << 10
"""The record is a few hundred bytes; what is longer is not the record."""


def environment() -> Mapping[str, str]:
    """Return a copy of the process's environment: read here once, passed on from here."""
    return dict(os.environ)  # noqa: TID251 - the one reading that the rule asks for


def app_directory(explicit: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the absolute app directory: the explicit one, then ``JAM_HOME``, then the platform's user data directory."""
    named = environ.get(HOME_VARIABLE, "")
    if explicit is None and not named:
        import platformdirs  # late: most calls name the directory

        return platformdirs.user_data_path("jam", appauthor=False)
    chosen = explicit if explicit is not None else Path(named)
    return Path(os.path.abspath(chosen.expanduser()))  # noqa: PTH100 - resolve() would follow the user's symbolic links
