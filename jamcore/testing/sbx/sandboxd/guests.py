"""Sandboxes: made, started, used, stopped and removed; and the auto-stop."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from jamcore.engines.bubblewrap import etc
from jamcore.engines.bubblewrap.machine import look
from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration, Instance
from jamcore.testing.sbx.sandboxd import box, clone, flavours
from jamcore.testing.sbx.sandboxd.proxy import HEAD_BYTES, Proxy, carry
from jamcore.testing.sbx.sandboxd.refusal import RefusedError, no_sandbox
from jamcore.testing.sbx.sandboxd.rules import Policy
from jamcore.testing.sbx.sandboxd.state import Sandbox, State, now
from jamcore.testing.sbx.sandboxd.vault import Vault

PROXY_PORT = 3128
SANDBOXES = 64
NAMES = "gateway.docker.internal host.docker.internal mcp-gateway.docker.internal"
PATH = ("/usr/local/share/npm-global/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(slots=True)
class Running:
    """What a running sandbox has besides its container."""

    box: box.Box
    servers: list[asyncio.Server] = field(default_factory=list)
    sessions: int = 0
    timer: asyncio.TimerHandle | None = None


class Guests:
    """The sandboxes of one daemon."""

    def __init__(
        self, place: Instance, state: State, gates: Gates, told: Callable[[], Configuration], policy: Policy, vault: Vault
    ) -> None:
        self.place = place
        self.state = state
        self.gates = gates
        self.told = told
        self.policy = policy
        self.vault = vault
        self.running: dict[str, Running] = {}
        self.locks: dict[str, asyncio.Lock] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.agent_socket = ""
        self.save: Callable[[], None] = lambda: None
        self.log: Callable[[str], None] = lambda _: None

    # ------------------------------------------------------------------ looking

    def find(self, name: str) -> Sandbox:
        """Return a sandbox.

        Raises:
            RefusedError: There is none.
        """
        found = self.state.sandboxes.get(name)
        if found is None:
            raise no_sandbox(self.gates, name)
        return found

    def disk(self, name: str) -> Path:
        """Return where everything lies that stays over a stop."""
        return self.place.sandboxd / "runtimes" / name

    def lock(self, name: str) -> asyncio.Lock:
        """One change of a sandbox at a time."""
        return self.locks.setdefault(name, asyncio.Lock())

    # ------------------------------------------------------------------ changing

    async def create(self, sandbox: Sandbox) -> None:
        """Make a sandbox and start it.

        Raises:
            RefusedError: It cannot be; nothing is left of it.
        """
        if len(self.state.sandboxes) >= SANDBOXES:
            raise RefusedError("too many sandboxes")
        async with self.lock(sandbox.name):
            disk = self.disk(sandbox.name)
            try:
                (disk / "home" / "workspace").mkdir(parents=True)
                (disk / "persistent.sh").touch()
                flavours.furnish(disk / "home", sandbox)
                if sandbox.clone:
                    await clone.make(sandbox.clone, disk / "clone")
                self.state.sandboxes[sandbox.name] = sandbox
                sandbox.custom = [each["placeholder"] for each in self.state.secrets if each["type"] == "custom"]
                await self._start(sandbox)
            except (RefusedError, box.BoxError, OSError) as error:
                self.state.sandboxes.pop(sandbox.name, None)
                shutil.rmtree(disk, ignore_errors=True)
                self.log(f"create {sandbox.name}: {error!r}")
                if isinstance(error, RefusedError):
                    raise
                raise RefusedError("failed to create sandbox: failed to run sandbox container") from error
            finally:
                self.save()
        if self.gates("auto-stop.created") and not self.told().bug("created-stays"):
            self._idle(sandbox.name)

    async def up(self, name: str) -> bool:
        """Have a sandbox running; say whether it had to be started.

        Raises:
            RefusedError: There is none, or it does not come up.
        """
        sandbox = self.find(name)
        async with self.lock(name):
            if name in self.running:
                return False
            try:
                await self._start(sandbox)
            except (box.BoxError, OSError) as error:
                self.log(f"start {name}: {error!r}")
                raise RefusedError("failed to run sandbox container") from error
            self._idle(name)
            return True

    async def _start(self, sandbox: Sandbox) -> None:
        name = sandbox.name
        machine = look()
        if machine is None or not self.told().virtualisation:
            raise RefusedError("failed to create sandbox: no hypervisor is available on this machine")
        missing = [path for path in sandbox.workspaces if not Path(path.removesuffix(":ro")).exists()]
        if missing:
            raise RefusedError(f"workspace path does not exist: {missing[0].removesuffix(':ro')}")
        made = box.begin(name, machine, self._binds(sandbox), self._files(sandbox))
        running = self.running[name] = Running(made)
        made.watch(lambda: self._gone(name, running))
        try:
            await made.ready()
            listener = await made.listener(PROXY_PORT)
            proxy = Proxy(name, self.policy, self.told, self.gates, lambda host, value: self._swap(name, host, value))
            running.servers.append(await asyncio.start_server(proxy.serve, sock=listener, limit=HEAD_BYTES))
            if sandbox.clone:
                await self._git_daemon(sandbox, made)
            for port in sandbox.ports:
                await self._publish(name, port)
        except BaseException:
            await self._end(name)
            raise
        sandbox.status = "running"
        self.log(f"runtime {name} started")
        self.save()

    def _swap(self, name: str, host: str, value: str) -> str:
        sandbox = self.state.sandboxes.get(name)
        return value if sandbox is None else self.vault.swap(self.told(), sandbox, host, value)

    def _binds(self, sandbox: Sandbox) -> list[box.Bind]:
        disk = self.disk(sandbox.name)
        image = self.told().image(sandbox.image)
        binds = [
            box.Bind(str(disk / "home"), box.HOME, writable=True),
            box.Bind(str(disk / "persistent.sh"), "/etc/sandbox-persistent.sh", writable=True),
            *(box.Bind(source, path, writable=False) for path, source in image.binds.items()),
        ]
        for number, workspace in enumerate(sandbox.workspaces):
            path = workspace.removesuffix(":ro")
            writable = path == workspace or self.told().bug("read-only-ignored")
            if sandbox.clone and number == 0:
                binds.append(box.Bind(sandbox.clone, clone.SOURCE, writable=False))
                binds.append(box.Bind(str(disk / "clone"), sandbox.clone, writable=True))
            else:
                binds.append(box.Bind(path, path, writable=writable))
        return binds

    def _files(self, sandbox: Sandbox) -> dict[str, str]:
        user, uid = etc.GUEST_USER, etc.GUEST_UID
        return {
            "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\n{user}:x:{uid}:{uid}::{box.HOME}:/bin/bash\n",
            "/etc/group": f"root:x:0:\n{user}:x:{uid}:\n",
            "/etc/hosts": f"127.0.0.1 localhost {sandbox.name}\n::1 localhost\n{box.GATEWAY} {NAMES}\n",
            "/etc/hostname": f"{sandbox.name}\n",
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
            "/etc/resolv.conf": "# nothing is resolved here but by the proxy\n",
            **flavours.instructions(sandbox),
        }

    def environment(self, sandbox: Sandbox) -> dict[str, str]:
        """Return the environment of a program in the guest: nothing of the host's is in it."""
        image = self.told().image(sandbox.image)
        proxy = f"http://gateway.docker.internal:{PROXY_PORT}"
        no_proxy = "localhost,127.0.0.1,::1"
        if self.gates("guest.no-proxy-gateway"):
            no_proxy += ",gateway.docker.internal"
        found = {
            "PATH": ":".join((*image.path, *PATH)),
            "HOME": box.HOME,
            "LANG": "C.UTF-8",
            "BASH_ENV": "/etc/sandbox-persistent.sh",
            "SANDBOX_NAME": sandbox.name,
            "SANDBOX_VM_ID": sandbox.name,
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), no_proxy),
            **self.vault.environment(self.gates, sandbox),
        }
        if self.gates("guest.env-id"):
            found["SANDBOX_ID"] = sandbox.ident
        if self.gates("guest.env-newer"):
            found["WORKSPACE_DIR"] = sandbox.primary
            found["MCP_GATEWAY_URL"] = "http://mcp-gateway.docker.internal/mcp"
            found["MCP_SENTINEL_TOKEN_NAME"] = "proxy-managed"  # noqa: S105 - what stands for a secret
            found |= dict.fromkeys(("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"), CERTIFICATES)
        forwarding = self.state.settings.get("ssh.agentForwardingEnabled", True)
        if self.agent_socket and (forwarding or self.told().bug("ssh-agent-forwarded")):
            found["SSH_AUTH_SOCK"] = "/run/ssh-agent.sock"
        return found | sandbox.env

    async def _git_daemon(self, sandbox: Sandbox, made: box.Box) -> None:
        parent = str(Path(sandbox.clone).parent)
        argv = ["git", "-c", "safe.directory=*", "daemon", f"--base-path={parent}", "--export-all", "--reuseaddr"]
        argv += ["--listen=0.0.0.0", f"--port={clone.GIT_PORT}", parent]
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            await made.start(argv=argv, env=self.environment(sandbox), cwd="/", size=None, streams=[null, null, null])
        finally:
            os.close(null)
        if not any(port["sandbox_port"] == clone.GIT_PORT for port in sandbox.ports):
            port = {"host_ip": "127.0.0.1", "host_port": 0, "sandbox_port": clone.GIT_PORT, "protocol": "tcp4"}
            sandbox.ports.append(port)

    async def _publish(self, name: str, port: dict[str, Any]) -> None:
        running = self.running[name]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                connection = await running.box.connection(port["sandbox_port"])
                there, back = await asyncio.open_connection(sock=connection)
                await carry(reader, writer, there, back)
            except (box.BoxError, OSError):
                self.log(f"port {port['sandbox_port']} of {name}: nobody listens")
            finally:
                writer.close()

        try:
            server = await asyncio.start_server(serve, port["host_ip"], port["host_port"])
        except OSError as error:
            raise RefusedError(f"failed to bind host port {port['host_ip']}:{port['host_port']}: address already in use") from error
        found = server.sockets[0].getsockname()[1]
        if (
            port["host_port"] != found
            and (repository := self.state.sandboxes[name].clone)
            and port["sandbox_port"] == clone.GIT_PORT
        ):
            await clone.add_remote(repository, name, found)
        port["host_port"] = found
        running.servers.append(server)

    async def publish(self, name: str, port: dict[str, Any]) -> dict[str, Any]:
        """Publish a port of a sandbox, which is started where it has to be.

        Raises:
            RefusedError: The port is taken.
        """
        await self.up(name)
        sandbox = self.find(name)
        if any(each["host_port"] == port["host_port"] for each in sandbox.ports if port["host_port"]):
            raise RefusedError(f"409 Conflict: port {port['host_ip']}:{port['host_port']}/tcp is already published")
        await self._publish(name, port)
        sandbox.ports.append(port)
        self.save()
        return port

    # ------------------------------------------------------------------ sessions and the auto-stop

    @asynccontextmanager
    async def session(self, name: str) -> AsyncIterator[Running]:
        """Hold a sandbox up for the time of a session."""
        sandbox = self.find(name)
        running = self.running.get(name)
        if running is None:
            raise RefusedError(f"sandbox '{name}' is not running")
        running.sessions += 1
        sandbox.used = True
        sandbox.last_used_at = now()
        self._idle(name)
        try:
            yield running
        finally:
            running.sessions -= 1
            if self.running.get(name) is running:
                self._idle(name)

    def _idle(self, name: str) -> None:
        """Begin to count again, or not at all while there is a session (``auto-stop.idle``)."""
        running = self.running[name]
        if running.timer is not None:
            running.timer.cancel()
            running.timer = None
        if running.sessions == 0 and not self.find(name).pinned:
            running.timer = asyncio.get_running_loop().call_later(self.told().idle_s, self._stop_later, name, running)

    def _stop_later(self, name: str, running: Running) -> None:
        if self.running.get(name) is not running or running.sessions:
            return
        self.log(f"auto-stop grace period expired, stopping runtime {name}")
        task = asyncio.ensure_future(self.stop(name))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def pin(self, name: str) -> None:
        """Keep a sandbox running (``auto-stop.pinned``)."""
        await self.up(name)
        self.find(name).pinned = True
        self._idle(name)
        self.save()

    def _gone(self, name: str, running: Running) -> None:
        """A container ended by itself."""
        if self.running.get(name) is running:
            self.running.pop(name)
            self._close(running)
            if sandbox := self.state.sandboxes.get(name):
                sandbox.status = "stopped"
                sandbox.stopped_at = now()
                self.save()

    async def stop(self, name: str) -> None:
        """Stop a sandbox; one that is stopped stays so.

        Raises:
            RefusedError: There is none.
        """
        sandbox = self.find(name)
        async with self.lock(name):
            if name in self.running:
                await self._end(name)
                sandbox.status, sandbox.pinned, sandbox.stopped_at = "stopped", False, now()
                if sandbox.clone:
                    await clone.mirror(sandbox.clone, name, self.disk(name) / "clone")
                if self.told().bug("scoped-allow-lost"):
                    self.policy.drop(f"sandbox:{name}", allows_only=True)
                self.log(f"runtime {name} stopped")
                self.save()

    async def _end(self, name: str) -> None:
        running = self.running.pop(name)
        self._close(running)
        await running.box.stop()

    @staticmethod
    def _close(running: Running) -> None:
        if running.timer is not None:
            running.timer.cancel()
        for server in running.servers:
            server.close()

    async def remove(self, name: str) -> str:
        """Remove a sandbox with all that is its own; return the repository of its clone.

        Raises:
            RefusedError: There is none.
        """
        sandbox = self.find(name)
        await self.stop(name)
        async with self.lock(name):
            if sandbox.clone:
                await clone.mirror(sandbox.clone, name, self.disk(name) / "clone")
                await clone.remove_remote(sandbox.clone, name)
            self.state.sandboxes.pop(name, None)
            self.policy.drop(f"sandbox:{name}")
            if self.gates("rm.takes-secrets"):
                self.vault.remove(name, everything=True)
            await asyncio.to_thread(shutil.rmtree, self.disk(name), ignore_errors=True)
            self.save()
        return sandbox.clone

    async def stop_all(self) -> None:
        """Stop every sandbox, as the daemon does at its end."""
        for name in list(self.running):
            await self.stop(name)


def new_ident() -> str:
    """Return the id of a new sandbox."""
    return str(uuid4())
