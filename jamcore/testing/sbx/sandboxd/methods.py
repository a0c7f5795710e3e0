"""What the daemon does for the commands that need no stream: one method each, arguments and answers in JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd.clone import GIT_PORT
from jamcore.testing.sbx.sandboxd.guests import Guests
from jamcore.testing.sbx.sandboxd.refusal import RefusedError
from jamcore.testing.sbx.sandboxd.rules import FALLBACK, GLOBAL, HOST, Policy, organization, split
from jamcore.testing.sbx.sandboxd.state import Sandbox
from jamcore.testing.sbx.sandboxd.vault import HOST_ONLY, Vault


class Methods:
    """One method for each request, called ``do_`` and its name."""

    def __init__(self, guests: Guests, policy: Policy, vault: Vault, gates: Gates, told: Callable[[], Configuration]) -> None:
        self.guests = guests
        self.policy = policy
        self.vault = vault
        self.gates = gates
        self.told = told
        self.state = guests.state

    # ------------------------------------------------------------------ sandboxes

    async def do_hello(self) -> dict[str, Any]:
        """Say who answers."""
        return {"version": self.gates.full, "pid": os.getpid()}

    async def do_ls(self) -> list[dict[str, Any]]:
        """List the sandboxes."""
        return [self._row(sandbox) for sandbox in self.state.sandboxes.values()]

    def _row(self, sandbox: Sandbox) -> dict[str, Any]:
        row: dict[str, Any] = {"name": sandbox.name, "id": sandbox.ident, "agent": sandbox.agent, "status": sandbox.status}
        if sandbox.status == "running" and sandbox.ports:
            row["ports"] = sandbox.ports
        row["workspaces"] = sandbox.workspaces
        if any(not Path(path.removesuffix(":ro")).exists() for path in sandbox.workspaces):
            row["workspace_missing"] = True
        if self.gates("ls.last-used"):
            row["last_used_at"] = sandbox.last_used_at
        if self.gates("ls.created"):
            row["created_at"] = sandbox.created_at
        if self.gates("ls.limits"):
            row |= {"cpus": sandbox.cpus, "memory": sandbox.memory}
        return row

    async def do_inspect(self, name: str) -> dict[str, Any]:
        """Describe one sandbox."""
        sandbox = self.guests.find(name)
        running = self.guests.running.get(name)
        found = {
            "name": name,
            "agent": sandbox.agent,
            "kits": sandbox.kits,
            "state": sandbox.status,
            "image": sandbox.image,
            "workspace": sandbox.primary,
            "network_policy": {"scope": "global"},
            "mounts": [] if self.told().bug("inspect-mounts-missing") else sandbox.workspaces,
            "ports": [f"{each['host_ip']}:{each['host_port']}->{each['sandbox_port']}/tcp" for each in sandbox.ports],
            "sessions": running.sessions if running else 0,
            "daemon_version": self.gates.full,
        }
        return {key: value for key, value in found.items() if value not in ([], "")}

    async def do_stop(self, name: str) -> None:
        """Stop a sandbox."""
        await self.guests.stop(name)

    async def do_rm(self, name: str) -> str:
        """Remove a sandbox; return the repository of its clone."""
        return await self.guests.remove(name)

    async def do_up(self, name: str) -> dict[str, Any]:
        """Have a sandbox running."""
        started = await self.guests.up(name)
        sandbox = self.guests.find(name)
        return {
            "started": started,
            "home": str(self.guests.disk(name) / "home"),
            "workspaces": sandbox.workspaces,
            "id": sandbox.ident,
        }

    async def do_find(self, name: str) -> dict[str, Any]:
        """Say whether a sandbox is there, and what it is."""
        sandbox = self.guests.find(name)
        return {"id": sandbox.ident, "agent": sandbox.agent, "workspaces": sandbox.workspaces, "status": sandbox.status}

    async def do_pin(self, name: str) -> str:
        """Keep a sandbox running; return its id."""
        if self.gates("auto-stop.pinned"):
            await self.guests.pin(name)
        else:
            await self.guests.up(name)
        return self.guests.find(name).ident

    async def do_prunable(self, until: str) -> list[dict[str, Any]]:
        """List the stopped sandboxes, those alone that were stopped before a time where one is given."""
        rows = [
            {"name": each.name, "agent": each.agent, "stopped_at": each.stopped_at, "workspaces": each.workspaces}
            for each in self.state.sandboxes.values()
            if each.status == "stopped"
        ]
        return [row for row in rows if not until or str(row["stopped_at"]) < until]

    # ------------------------------------------------------------------ ports

    async def do_ports(self, name: str) -> list[dict[str, Any]]:
        """List the ports of a sandbox."""
        return self.guests.find(name).ports if name in self.guests.running or self.guests.find(name).ports else []

    async def do_publish(self, name: str, port: dict[str, Any]) -> dict[str, Any]:
        """Publish a port."""
        return await self.guests.publish(name, port)

    async def do_unpublish(self, name: str, port: dict[str, Any]) -> None:
        """Take a port back; its listener ends with the sandbox's next stop or at once."""
        sandbox = self.guests.find(name)
        found = [
            each
            for each in sandbox.ports
            if each["sandbox_port"] == port["sandbox_port"]
            and port["host_port"] in (0, each["host_port"])
            and each["sandbox_port"] != GIT_PORT
        ]
        if not found:
            raise RefusedError(f"port {port['sandbox_port']} is not published")
        for each in found:
            sandbox.ports.remove(each)
            if running := self.guests.running.get(name):
                for server in running.servers:
                    if any(made.getsockname()[1] == each["host_port"] for made in server.sockets if made.family.name == "AF_INET"):
                        server.close()

    # ------------------------------------------------------------------ policy

    async def do_policy_init(self, profile: str) -> None:
        """Make the first rules."""
        self.policy.init(profile)

    async def do_policy_add(self, decision: str, sandbox: str, resources: list[str], how: dict[str, Any]) -> list[dict[str, Any]]:
        """Add rules."""
        if sandbox:
            self.guests.find(sandbox)
        scope = f"sandbox:{sandbox}" if sandbox else GLOBAL
        return self.policy.add(self.told(), self.gates, decision, scope, resources, **how)

    async def do_policy_rm(self, sandbox: str, ident: str, resources: list[str]) -> list[str]:
        """Remove rules."""
        self.policy.needed()
        return self.policy.remove(self.told(), f"sandbox:{sandbox}" if sandbox else GLOBAL, ident, resources)

    async def do_policy_ls(self, sandbox: str) -> dict[str, Any]:
        """List rules as the JSON has them."""
        self.policy.needed()
        told = self.told()
        rules = [
            each for each in (*self.state.rules, *organization(told)) if each["origin"] != "kit" or not told.bug("kit-hosts-open")
        ]
        if sandbox and sandbox in self.state.sandboxes:
            rules = [each for each in rules if each["scope"] in (GLOBAL, f"sandbox:{sandbox}") and each["id"] != FALLBACK]
        elif sandbox:
            rules = [each for each in rules if each["scope"] == GLOBAL]
        answer: dict[str, Any] = {"rules": [self._shown(each, told) for each in rules]}
        if told.governance is not None:
            answer["organization"] = told.governance.organization
        return answer

    def _shown(self, each: Mapping[str, Any], told: Configuration) -> dict[str, Any]:
        row = {key: value for key, value in each.items() if not key.startswith("_")}
        if told.governance is not None and each["origin"] != "org" and each["decision"] == "allow":
            row["status"] = "inactive"
        if each["scope"] != GLOBAL:
            name = each["scope"].partition(":")[2]
            row["sandbox_id"] = self.state.sandboxes[name].ident if name in self.state.sandboxes else ""
        if self.gates("policy.json-more"):
            row["provenance"] = {"created_via": each["_created"]}
            row["actions"] = [f"net:connect:{each_protocol}" for each_protocol in each["_protocols"]]
        return row

    async def do_policy_check(self, sandbox: str, target: str) -> dict[str, Any]:
        """Check a target."""
        self.policy.needed("412 Precondition Failed: ")
        if sandbox:
            self.guests.find(sandbox)
        host, port = split(target)
        scope = f"sandbox:{sandbox}" if sandbox else GLOBAL
        decision = self.policy.decide(self.told(), scope, host, port)
        allowed = decision.allowed and not (self.told().bug("check-host-wrong") and host == HOST)
        answer: dict[str, Any] = {
            "action": "net:connect:tcp",
            "allowed": allowed,
            "context": scope,
            "governance": {"active": self.told().governance is not None},
        }
        answer |= {
            "resource_type": "net:domain",
            "resource_value": f"{host}:{port}",
            "target": f"{host}:{port}" if ":" in target else target,
        }
        answer["type"] = "network"
        if not allowed:
            answer |= {
                "deny_kind": "explicit" if decision.explicit else "implicit",
                "reason": decision.reason or "No matching allow rule (default deny)",
            }
        if decision.explicit:
            answer |= {"origin": decision.origin, "rule": decision.rule, "target": f"{host}:{port}"}
        return answer

    async def do_policy_reset(self) -> None:
        """Forget the policy."""
        self.policy.reset()

    async def do_policy_log(self, sandbox: str, limit: int) -> dict[str, Any]:
        """Return the log."""
        rows = [row for row in self.state.log if not sandbox or row["vm_name"] == sandbox]
        rows = rows[-limit:] if limit else rows

        def shown(allowed: bool) -> list[dict[str, Any]]:
            return [{key: value for key, value in row.items() if key[0] != "_"} for row in rows if row["_allowed"] is allowed]

        return {"blocked_hosts": shown(False), "allowed_hosts": shown(True)}

    # ------------------------------------------------------------------ secrets

    async def do_secret_set(self, service: str, scope: str, value: str, kind: str, *, ahead: bool = False) -> None:
        """Store a secret; ``ahead`` of the sandbox that it is for."""
        if scope not in (GLOBAL, HOST_ONLY) and not ahead:
            self.guests.find(scope)
        self.vault.set(service, scope, value, kind)

    async def do_secret_has(self, service: str, scope: str) -> bool:
        """Say whether one is stored."""
        return self.vault.has(service, scope)

    async def do_secret_custom(self, hosts: list[str], env: str, scope: str, value: str, placeholder: str) -> str:
        """Store a custom secret; return its placeholder."""
        if scope != GLOBAL:
            self.guests.find(scope)
        return self.vault.custom(hosts, env, scope, value, placeholder)

    async def do_secret_ls(self, scope: str, service: str) -> dict[str, Any]:
        """List secrets without their values."""
        return self.vault.listed(scope, service)

    async def do_secret_rm(self, scope: str, how: dict[str, Any]) -> dict[str, Any]:
        """Remove secrets; say how many sandboxes run."""
        return {"gone": self.vault.remove(scope, **how), "running": len(self.guests.running)}

    # ------------------------------------------------------------------ settings, MCP, approvals

    async def do_settings(self) -> dict[str, Any]:
        """Return what was set."""
        return self.state.settings

    async def do_setting(self, key: str, value: Any = None, unset: bool = False) -> None:  # noqa: ANN401 - JSON
        """Set or unset one."""
        self.state.settings.pop(key, None)
        if not unset:
            self.state.settings[key] = value

    async def do_mcp_add(self, name: str, server: dict[str, Any]) -> None:
        """Register a server."""
        if name in self.state.servers:
            raise RefusedError(f'MCP server "{name}" already exists')
        self.state.servers[name] = server

    async def do_mcp_ls(self) -> dict[str, Any]:
        """List the servers."""
        return self.state.servers

    async def do_mcp_rm(self, name: str) -> bool:
        """Forget a server; say whether it was there."""
        return self.state.servers.pop(name, None) is not None

    async def do_approve(self, digest: str, remember: bool) -> bool:
        """Say whether a plan was approved before; remember it where asked."""
        known = digest in self.state.approved
        if remember and not known:
            self.state.approved.append(digest)
        return known

    async def do_reset(self, preserve_secrets: bool) -> None:
        """Remove everything."""
        for name in list(self.state.sandboxes):
            await self.guests.remove(name)
        self.policy.reset()
        self.state.settings.clear()
        self.state.servers.clear()
        self.state.log.clear()
        if not preserve_secrets:
            self.state.secrets.clear()

    async def do_stop_all(self) -> None:
        """Stop every sandbox."""
        await self.guests.stop_all()


def before(until: str) -> str:
    """Return a time as state has it, from ``until=`` of prune: RFC 3339, unix seconds, or a duration before now.

    Raises:
        RefusedError: It is none.
    """
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        if until.isdigit():
            moment = datetime.fromtimestamp(int(until), UTC)
        elif until[-1:] in units and until[:-1].isdigit():
            moment = datetime.fromtimestamp(datetime.now(UTC).timestamp() - int(until[:-1]) * units[until[-1]], UTC)
        else:
            moment = datetime.fromisoformat(until)
    except ValueError as error:
        raise RefusedError(f'invalid filter "until={until}"') from error
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
