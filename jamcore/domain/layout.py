"""Where everything lies below the app directory, derived from validated UUIDs and names, never from user input (WS-1).

All values are POSIX paths relative to the app directory; whoever owns the directory joins them.
"""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.ids import plugin_name

LOCK = "jamd.lock"
DATABASE = "jam.db"
OWNERS = "cfg/sandbox-owners"
PENDING_CLEANUPS = "cfg/sandbox-owners/pending-cleanups"
CREDENTIALS = "cfg/credentials"
BLOCKED_PLUGINS = "cfg/blocked-plugins.json"
TOOLCHAINS = "toolchains"
HOSTS = "runtime-hosts"
CHANGES = "change-requests"
HOST_NATIVE = "host-native"
EXPORTS = "workspace-exports"
ENGINES = "engines"
LOG = "jamd.log"
TYPED = "cli/typed"


def host_root(host: UUID) -> str:
    """Return the directory of one runtime host."""
    return f"{HOSTS}/{host}"


def workspace_root(host: UUID) -> str:
    """Return the primary workspace of a Managed host."""
    return f"{host_root(host)}/workspace-root"


def session_workspace(host: UUID, session: UUID) -> str:
    """Return the directory that a session owns."""
    return f"{workspace_root(host)}/sessions/{session}"


def host_native_sessions(account: UUID, agent: UUID) -> str:
    """Return the directory of an agent's sessions that run as host processes; it belongs to no host (WS-14)."""
    return f"{HOST_NATIVE}/{account}/{agent}"


def host_native_workspace(account: UUID, agent: UUID, session: UUID) -> str:
    """Return the directory that a host-native session owns."""
    return f"{host_native_sessions(account, agent)}/{session}"


def archived_workspace(host: UUID, archive: UUID) -> str:
    """Return where a session's directory is on its way out: no guest sees that, and no start uses it (WS-4)."""
    return f"{host_root(host)}/.archived-{archive}"


def provider_state(host: UUID, provider: str) -> str:
    """Return the provider's state root on the host."""
    return f"{host_root(host)}/provider-state/{plugin_name(provider)}"


def guest_disk(host: UUID) -> str:
    """Return the sandbox's own lasting disk."""
    return f"{host_root(host)}/guest-disk"


def recovery(host: UUID) -> str:
    """Return where generations and packs are kept."""
    return f"{host_root(host)}/recovery"


def checkpoint_root(host: UUID, checkpoint: UUID) -> str:
    """Return the directory of one generation: ``complete.json`` makes it published (CONT-4)."""
    return f"{recovery(host)}/checkpoints/{checkpoint}"


def packs(host: UUID) -> str:
    """Return the directory of the append-only packs."""
    return f"{recovery(host)}/packs"


def review_repository(host: UUID, session: UUID) -> str:
    """Return Jam's own git directory for a session's work tree: no guest can see or write it (SEC-2)."""
    return f"{recovery(host)}/review/{session}.git"


def manifest(host: UUID) -> str:
    """Return the host's manifest."""
    return f"{host_root(host)}/manifest.json"


def owner_marker(sandbox: str) -> str:
    """Return the owner marker of a sandbox (OWN-1)."""
    return f"{OWNERS}/{sandbox}.json"


def pending_cleanup(sandbox: str) -> str:
    """Return the record of a sandbox that could not be removed at once (OWN-5)."""
    return f"{PENDING_CLEANUPS}/{sandbox}.json"


def toolchain(provider: str, version: str) -> str:
    """Return where a provider's pinned program is unpacked."""
    return f"{TOOLCHAINS}/{plugin_name(provider)}/{version}"


def change(identifier: UUID) -> str:
    """Return the package of one change request; outlives its sandbox (RUN-1)."""
    return f"{CHANGES}/{identifier}"


def export_root(identifier: UUID) -> str:
    """Return the directory of one export; outlives its host (WS-1)."""
    return f"{EXPORTS}/{identifier}"


def removed_host(host: UUID) -> str:
    """Return where the directory of a host is on its way out, its sandbox being gone (WS-8)."""
    return f"{HOSTS}/.{host}.removed"


def removed_export(identifier: UUID) -> str:
    """Return where an export is on its way out: nobody takes what is half removed for an export (WS-7)."""
    return f"{EXPORTS}/.{identifier}.removed"


def taken_export(identifier: UUID) -> str:
    """Return where an export from elsewhere is on its way in: its import goes on with it, or removes it (WS-6)."""
    return f"{EXPORTS}/.{identifier}.taken"


def engine_root(engine: str) -> str:
    """Return an engine's private record."""
    return f"{ENGINES}/{plugin_name(engine)}"


def typed(room: UUID) -> str:
    """Return what a person typed in a room at a terminal: the command line's own, which the daemon neither reads nor writes."""
    return f"{TYPED}/{room}.jsonl"
