"""Reported bugs that a driver can meet, each with a switch; none is on by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Bug:
    """One reported bug: its switch, the issue, and what is seen while it is on."""

    ident: str
    issue: str
    text: str


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        bug.ident: bug
        for bug in (
            Bug("ip-port-ignored", "#59", "A rule for `ip:port` is listed and never honoured."),
            Bug("tty-size-zero", "#63", "A terminal in the guest is 0 by 0."),
            Bug("kit-hosts-open", "#72", "The hosts of a kit are reachable under deny-all though no rule says so."),
            Bug(
                "ssh-agent-forwarded",
                "#115",
                "SSH_AUTH_SOCK of whoever started the daemon is in the guest though the setting is off.",
            ),
            Bug("read-only-ignored", "desktop-feedback #129", "`:ro` is ignored: the guest can write."),
            Bug("catch-all-hangs-ls", "#163", "`ls` hangs while a rule for `**` exists."),
            Bug("no-policy-json", "#290", "`policy ls --json` is an unknown flag."),
            Bug("scoped-allow-lost", "#311", "An allow of one sandbox is gone after it was stopped."),
            Bug("root-500", "#336", "Every command that makes a sandbox fails with a 500."),
            Bug("no-executor", "#358", "`exec` says `no sandbox executor available`, and then hangs."),
            Bug("env-file-ignored", "#368", "`exec --env-file` is accepted and ignored."),
            Bug("daemon-hangs", "#374", "The daemon takes connections and answers nothing."),
            Bug("exec-blocks-ls", "#385", "While an `exec` runs, every listing waits for it."),
            Bug("lost-after-sleep", "#413", "All sandboxes are gone at the next start of the daemon."),
            Bug("created-stays", "#452", "A sandbox that was created and never used is not stopped."),
            Bug("secrets-ask-import", "#471", "The first command of secrets asks on the terminal whether to import, and waits."),
            Bug("kit-service-not-injected", "#490", "The key of a service is not put in place of its placeholder."),
            Bug("daemon-crashes", "#496", "The daemon dies at the eighth `exec`."),
            Bug("image-lock", "#542", "While an image is got, every other command hangs."),
            Bug("check-host-wrong", "#546", "`policy check` says that host.docker.internal is denied, whatever the proxy does."),
            Bug("workspace-fails", "#593 #618", "`create` fails with every workspace, and works without one."),
            Bug("dot-directory-fails", "#602", "`create` fails with a workspace whose name begins with a dot."),
            Bug("inspect-mounts-missing", "#517", "`inspect` has no `mounts`."),
            Bug("rm-missing-ok", "#129", "`rm --force` of an unknown sandbox says `Error: …` and exits 0."),
        )
    }
)
"""Every switch by name."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault on demand."""

    ident: str
    text: str


FAULTS: Mapping[str, FaultKind] = MappingProxyType(
    {
        fault.ident: fault
        for fault in (
            FaultKind("hang", "The command does nothing and does not end."),
            FaultKind("slow", "It waits `seconds` first."),
            FaultKind("exit", "It does nothing, prints `text` on stderr and exits with `code`."),
            FaultKind("partial-json", "It does what it does, prints the first half of its stdout and exits 0."),
            FaultKind(
                "mismatch-prompt", "It asks whether to restart a daemon of another version, and waits for an answer on stdin."
            ),
            FaultKind("update-box", "It prints the box about an update after its output."),
            FaultKind("start-lines", "It prints the lines of a started daemon before its output."),
            FaultKind("daemon-dies", "It does what it does, and the daemon is killed before its answer comes."),
            FaultKind("daemon-dies-first", "The daemon is killed before it does anything."),
            FaultKind("daemon-does-not-start", "The daemon does not come up."),
        )
    }
)
"""Every kind by name."""
