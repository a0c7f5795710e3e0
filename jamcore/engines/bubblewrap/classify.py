"""What bwrap's words mean: the only place where they are read, with the setting that a person must change."""

from __future__ import annotations

import os
from pathlib import Path

from jamcore.domain.sandboxes import EngineFailedError, EngineUnavailableError
from jamcore.engines.bubblewrap.names import ENGINE

_REFUSED = (
    b"No permissions to create new namespace",
    b"No permissions to create a new namespace",
    b"Creating new namespace failed",
    b"setting up uid map",
)
_NO_SUCH_USER = (b"setresuid failed", b"setresgid failed", b"setgroups failed")
"""Root's stage cannot become an unprivileged user: this root is one of a user namespace that has too few users."""
_SETTINGS = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)


def explain(said: bytes) -> EngineUnavailableError | EngineFailedError:
    """Return the error for a sandbox that did not come up, from what bwrap wrote."""
    if any(words in said for words in _REFUSED):
        return namespaces_refused()
    if any(words in said for words in _NO_SUCH_USER):
        reason = "this root belongs to a container that lacks the users which sandboxes run as"
        return EngineUnavailableError(engine=ENGINE, reason=reason, setting="run Jam as an ordinary user")
    detail = said.decode(errors="replace").strip()[-300:]
    return EngineFailedError(engine=ENGINE, operation="start", detail=detail or "it ended without a word")


def namespaces_refused() -> EngineUnavailableError:
    """Return the error that names the setting which refuses user namespaces."""
    setting = refusing_setting()
    reason = "user namespaces are refused here"
    if setting is None:
        reason += " (a container's system call filter, or the limit of namespaces in use)"
    return EngineUnavailableError(engine=ENGINE, reason=reason, setting=f"sysctl -w {setting}" if setting else "")


def refusing_setting(settings: tuple[tuple[str, str, str], ...] = _SETTINGS) -> str | None:
    """Return the ``name=value`` that a person must set, if a known setting is what refuses."""
    for path, refusing, wanted in settings:
        if path.endswith("unprivileged_userns_clone") and os.geteuid() == 0:
            continue
        try:
            if Path(path).read_text().strip() == refusing:
                return wanted
        except OSError:
            continue
    return None
