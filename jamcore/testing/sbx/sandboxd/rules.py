"""Network policy: rules, their order, and the log of what was asked."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd.refusal import RefusedError
from jamcore.testing.sbx.sandboxd.state import State, now

PROFILES = ("allow-all", "balanced", "deny-all")
FALLBACK = "default-deny-all"
GLOBAL = "global"
HOST = "host.docker.internal"
LOG_ROWS = 1000
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default-ai-services": ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"),
        "default-package-managers": ("registry.npmjs.org", "pypi.org", "files.pythonhosted.org"),
        "default-code-and-containers": ("github.com", "api.github.com", "registry-1.docker.io"),
        "default-os-packages": ("archive.ubuntu.com", "security.ubuntu.com"),
        "default-cloud-infrastructure": ("storage.googleapis.com", "s3.amazonaws.com"),
        "default-cert-validation": ("ocsp.digicert.com", "crl.digicert.com"),
    }
)
"""``policy.balanced-hosts``: a few of each."""
_PATTERN = re.compile(r"(\*\*|(\*\*?\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)(:\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Decision:
    """What policy says about one target, and why."""

    allowed: bool
    rule: str = ""
    origin: str = ""
    explicit: bool = False
    reason: str = ""


def rule(name: str, scope: str, decision: str, resources: Iterable[str], **more: Any) -> dict[str, Any]:
    """Return one rule as ``policy ls --json`` has it; what begins with ``_`` is not shown."""
    return {
        "id": str(uuid4()),
        "name": name,
        "policy_id": "local-policy",
        "scope": scope,
        "applies_to": "all" if scope == GLOBAL else scope,
        "resource_type": "network",
        "decision": decision,
        "resources": list(resources),
        "origin": "local" if scope == GLOBAL else "scoped",
        "layer": "local",
        "status": "active",
        "editable": True,
        "_created": "added",
        "_from": 0.0,
        "_protocols": ["tcp"],
        **more,
    }


def defaults(profile: str) -> list[dict[str, Any]]:
    """Return the rules of ``policy init``."""
    networks: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
        "deny-all": [(FALLBACK, "deny", ("**",))],
        "allow-all": [("default-allow-all", "allow", ("**",))],
        "balanced": [(name, "allow", hosts) for name, hosts in GROUPS.items()],
    }
    made = [
        rule(name, GLOBAL, decision, hosts, id=name, editable=False, _created="default")
        for name, decision, hosts in networks[profile]
    ]
    for kind in ("read", "write"):
        name = f"default-fs-{kind}-allow-all"
        made.append(
            rule(name, GLOBAL, "allow", ["**"], id=name, editable=False, resource_type=f"filesystem:{kind}", _created="default")
        )
    return made


class Policy:
    """The rules of one daemon. A rule is listed at once and honoured after a while (``policy.delay``)."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.leaving: list[tuple[dict[str, Any], float]] = []

    def init(self, profile: str) -> None:
        """Make the first rules.

        Raises:
            RefusedError: They were made before, or there is no such profile.
        """
        if profile not in PROFILES:
            raise RefusedError(f'invalid policy "{profile}"; expected allow-all, balanced or deny-all')
        if self.state.policy:
            raise RefusedError("global network policy is already initialized", "sbx policy reset")
        self.state.policy = profile
        self.state.rules = [*defaults(profile), *self.state.rules]

    def needed(self, status: str = "") -> None:
        """Refuse where there is none (``policy.needed``)."""
        if not self.state.policy:
            raise RefusedError(
                f"{status}global network policy has not been initialized", "sbx policy init <allow-all|balanced|deny-all>"
            )

    def add(
        self, told: Configuration, gates: Gates, decision: str, scope: str, resources: list[str], **how: Any
    ) -> list[dict[str, Any]]:
        """Add one rule for each resource.

        Raises:
            RefusedError: A pattern is none, or the rule contradicts another.
        """
        self.needed()
        if gates("policy.malformed"):
            for resource in resources:
                if not well_formed(resource):
                    raise RefusedError(f'invalid network pattern "{resource}"')
        if gates("policy.conflict"):
            for resource in resources:
                self._conflict(decision, scope, resource)
        stored = [f"{each}:443" if gates("policy.bare-443") and bare(each) else each for each in resources]
        made = [rule(each, scope, decision, [each], _from=time.time() + told.rule_delay_s, **how) for each in stored]
        self.state.rules += made
        return made

    def _conflict(self, decision: str, scope: str, resource: str) -> None:
        for each in self.state.rules:
            if each["scope"] == scope and each["decision"] != decision and resource in each["resources"] and each["editable"]:
                raise RefusedError(f'{decision}: "{resource}" conflicts with existing {each["decision"]} rule "{each["id"]}"')

    def remove(self, told: Configuration, scope: str, ident: str, resources: list[str]) -> list[str]:
        """Remove rules by id or by resource; return their ids.

        Raises:
            RefusedError: There is none, or it is not ours to remove.
        """
        wanted = [
            each
            for each in (*self.state.rules, *organization(told))
            if (each["id"] == ident if ident else each["scope"] == scope and set(each["resources"]) & set(resources))
        ]
        if not wanted:
            raise RefusedError(f'rule "{ident}" not found' if ident else f'no rule for "{",".join(resources)}" found')
        if scope != GLOBAL and any(each["scope"] != scope for each in wanted):
            raise RefusedError(f'rule "{ident}" not found')
        if fixed := [each["id"] for each in wanted if not each["editable"]]:
            raise RefusedError(f'rule "{fixed[0]}" cannot be removed')
        for each in wanted:
            self.state.rules.remove(each)
            self.leaving.append((each, time.time() + told.rule_delay_s))
        return [str(each["id"]) for each in wanted]

    def drop(self, scope: str, *, allows_only: bool = False) -> None:
        """Forget the rules of a sandbox at once."""
        self.state.rules = [
            each for each in self.state.rules if each["scope"] != scope or (allows_only and each["decision"] != "allow")
        ]

    def reset(self) -> None:
        """Forget everything."""
        self.state.policy = ""
        self.state.rules = []

    def honoured(self, told: Configuration, scope: str) -> Iterator[dict[str, Any]]:
        """Yield the rules of the network that count at this moment."""
        self.leaving = [(each, until) for each, until in self.leaving if until > time.time()]
        for each in (*self.state.rules, *organization(told), *(each for each, _ in self.leaving)):
            if each["resource_type"] == "network" and each["scope"] in (GLOBAL, scope) and each["_from"] <= time.time():
                yield each

    def decide(self, told: Configuration, scope: str, host: str, port: int) -> Decision:
        """Say whether a target may be reached."""
        rules = [
            each
            for each in self.honoured(told, scope)
            if each["id"] != FALLBACK and any(covers(told, pattern, host, port) for pattern in each["resources"])
        ]
        for each in rules:
            if each["decision"] == "deny":
                org = each["origin"] == "org"
                return Decision(
                    allowed=False,
                    rule=each["id"] if org else f"local:{each['id']}",
                    origin="org" if org else "local",
                    explicit=True,
                    reason="Denied by org policy" if org else "Denied by local rule",
                )
        for each in rules:
            if each["decision"] == "allow" and (told.governance is None or each["origin"] == "org"):
                return Decision(allowed=True, rule=each["id"])
        return Decision(allowed=False, reason="No matching allow rule (default deny)")

    def note(self, sandbox: str, target: str, decision: Decision, proxy: str) -> None:
        """Write the log: one row for each sandbox, target and answer."""
        text = ""
        if not decision.allowed:
            matched = f"op(action=net:connect:tcp, resource=net:domain:{target})"
            text = (
                f'denied: rule "{decision.rule}" matched {matched}'
                if decision.rule
                else f"denied: no applicable policies for {matched}"
            )
        for row in self.state.log:
            if (row["vm_name"], row["host"], row["_allowed"], row["rule"]) == (sandbox, target, decision.allowed, text):
                row["last_seen"], row["count_since"] = now(), row["count_since"] + 1
                return
        row = {"host": target, "vm_name": sandbox, "proxy_type": proxy, "rule": text, "last_seen": now(), "since": now()}
        row |= {"count_since": 1, "_allowed": decision.allowed}
        self.state.log.append(row if decision.allowed else row | {"reason": decision.reason})
        del self.state.log[:-LOG_ROWS]


def organization(told: Configuration) -> list[dict[str, Any]]:
    """Return the organisation's rules."""
    if told.governance is None:
        return []
    how: dict[str, Any] = {"origin": "org", "layer": "org", "policy_id": "org-policy", "editable": False, "_created": "provisioned"}
    return [
        rule(each, GLOBAL, decision, [each], id=f"org-{decision}-{each}", **how)
        for decision, resources in (("allow", told.governance.allow), ("deny", told.governance.deny))
        for each in resources
    ]


def bare(pattern: str) -> bool:
    """Whether a pattern is a host without a port."""
    return pattern != "**" and "/" not in pattern and not re.search(r":\d+$", pattern)


def well_formed(pattern: str) -> bool:
    """Whether a pattern is one."""
    with suppress(ValueError):
        ipaddress.ip_network(pattern, strict=False)
        return True
    return _PATTERN.fullmatch(pattern) is not None


def split(target: str) -> tuple[str, int]:
    """Return host and port of a target; a bare host is checked on 443."""
    target = re.sub(r"^[a-z]+://", "", target).partition("/")[0]
    host, colon, port = target.rpartition(":")
    return (host, int(port)) if colon and port.isdigit() else (target, 443)


def covers(told: Configuration, pattern: str, host: str, port: int) -> bool:
    """Whether a pattern covers a target (``policy.patterns``, ``net.host``)."""
    host = "localhost" if host == HOST else host.lower()
    if pattern == "**":
        return True
    if "/" in pattern:
        with suppress(ValueError):
            return ipaddress.ip_address(host) in ipaddress.ip_network(pattern, strict=False)
        return False
    name, colon, number = pattern.rpartition(":")
    if colon and number.isdigit():
        if int(number) != port:
            return False
        pattern = name
        with suppress(ValueError):
            ipaddress.ip_address(pattern)
            if told.bug("ip-port-ignored"):
                return False
    pattern = pattern.lower()
    if pattern.startswith("**."):
        return host.endswith(pattern[2:])
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and "." not in host.removesuffix(pattern[1:])
    return host == pattern
