"""Proof that a sandbox is Jam's: the host's marker, and a nonce that lies in the guest (OWN-1 to OWN-5, OWN-8).

What this proof is worth: the host's marker is the authority; the nonce guards against mistakes (another sandbox of the same name), not
against malice, since a guest can read, delete or copy its own nonce. Nothing that a guest says is used for anything but this one
comparison. A guest that destroyed its nonce blocks nothing where the engine keeps a copy of its own, which then decides; elsewhere an
operator does, by the evidence: see :mod:`jamcore.sandbox.teardown`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from enum import StrEnum

import anyio
import structlog

from jamcore.domain.cells import Ability
from jamcore.domain.clone_work import CloneWork
from jamcore.domain.errors import JamError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.domain.ownership import (
    GUEST_MARKER,
    OwnerMarker,
    OwnershipMismatchError,
    PendingCleanup,
    PlanMatch,
    ProofLostError,
    match_plans,
)
from jamcore.domain.plan import Owner, Plan, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.engines.port import Engine, HostView, Proves
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.sandbox.calls import EngineCalls
from jamcore.sandbox.clones import LooksAtClone, work_in_clone
from jamcore.sandbox.records import OwnerRecords, read_small_file

PROOF_BYTES = 4096
_WRITE_PROOF = 'umask 077 && IFS= read -r proof && printf "%s\\n" "$proof" > "$1"'  # built-ins alone: one process
WRITE_PROOF_ARGV = ("/bin/sh", "-c", _WRITE_PROOF, "jam-owner", GUEST_MARKER)
"""The last argument is the proof's place; see :meth:`Ownership._at` for guests that have it elsewhere."""
# A pipe, a device or an endless file in its place must not keep the question from being answered.
_READ_PROOF = f'[ -f "$1" ] && [ ! -L "$1" ] && exec head -c {PROOF_BYTES} -- "$1"'
READ_PROOF_ARGV = ("/bin/sh", "-c", _READ_PROOF, "jam-owner", GUEST_MARKER)
# Whatever a guest put in its place goes; a link that appears in between is not followed, because nothing that exists is opened (-C).
_RENEW_PROOF = 'umask 077 && IFS= read -r proof && rm -rf -- "$1" && set -C && printf "%s\\n" "$proof" > "$1"'
RENEW_PROOF_ARGV = ("/bin/sh", "-c", _RENEW_PROOF, "jam-owner", GUEST_MARKER)


class NonceState(StrEnum):
    """What comparing a guest's nonce showed."""

    MATCHES = "matches"
    DIFFERS = "differs"
    MISSING = "missing"
    UNANSWERED = "unanswered"
    """What reads it in the guest did not end by itself (a pipe in its place, a guest that kills): nothing is known of the file."""


class ProvenBy(StrEnum):
    """What proved that a sandbox is the one that was made with a nonce."""

    GUEST = "guest"
    ENGINE = "engine"


class Ownership:
    """Reads and compares proofs on one engine. It changes nothing but starting a stopped sandbox to look at it."""

    def __init__(
        self,
        records: OwnerRecords,
        engine: Engine,
        *,
        crash: CrashPoints | None = None,
        limits: Limits = DEFAULTS,
        look: LooksAtClone | None = None,
    ) -> None:
        self.records = records
        self.engine = engine
        self.limits = limits
        self.calls = EngineCalls(engine, limits)
        self.crash = crash or NoCrash()
        self._look = look
        self._log = structlog.get_logger("jam.ownership")

    def verify_record(self, plan: Plan) -> tuple[OwnerMarker, PlanMatch]:
        """Compare the stored plan and the MCP registrations with the plan asked for; touches no sandbox (OWN-3, OWN-4).

        Raises:
            OwnershipMismatchError: No marker, another plan, or other registrations.
            MarkerUnreadableError: The marker is damaged.
        """
        marker = self.records.marker(plan.name)
        if marker is None:
            raise OwnershipMismatchError(sandbox=plan.name, part="marker: there is none")
        match = match_plans(marker.plan, plan)
        if match is PlanMatch.DIFFERENT:
            raise OwnershipMismatchError(sandbox=plan.name, part=f"plan: {', '.join(differing(marker.plan, plan))}")
        if not hmac.compare_digest(marker.mcp_digest, mcp_digest(plan)):
            raise OwnershipMismatchError(sandbox=plan.name, part="MCP registrations")
        return marker, match

    def verify_removable(self, sandbox: str, owner: Owner) -> OwnerMarker:
        """Return the stored marker of a sandbox if it is this owner's; MCP registrations do not matter for a removal (OWN-3).

        Raises:
            OwnershipMismatchError: No marker, or somebody else's.
            MarkerUnreadableError: The marker is damaged.
        """
        marker = self.records.marker(sandbox)
        if marker is None:
            raise OwnershipMismatchError(sandbox=sandbox, part="marker: there is none")
        if not _same_owner(marker.plan.owner, owner):
            raise OwnershipMismatchError(sandbox=sandbox, part="owner")
        return marker

    async def prove(self, sandbox: str, nonce: str) -> ProvenBy:
        """Require proof that the sandbox is the one that was made with this nonce (OWN-3).

        The guest's copy is looked at first. Where it does not hold, the copy decides that the engine keeps out of the guest's reach, if it
        keeps one (OWN-8).

        Raises:
            ProofLostError: The guest holds another nonce, or none, and the engine does not vouch for it.
            EngineUnknownError, SandboxGoneError: It cannot be said.
        """
        state = await self.nonce_state(sandbox, nonce)
        if state is NonceState.MATCHES:
            return ProvenBy.GUEST
        if isinstance(self.engine, Proves):
            kept = await self.calls.proof(self.engine, sandbox)
            if kept and hmac.compare_digest(kept.encode(), nonce.encode()):
                return ProvenBy.ENGINE
        if state is NonceState.UNANSWERED:
            raise self._unknown("read the owner's proof", "the guest did not answer, or what reads it there was killed")
        raise ProofLostError(sandbox=sandbox, part=f"nonce: {state}")

    async def nonce_state(self, sandbox: str, nonce: str) -> NonceState:
        """Compare the sandbox's nonce.

        A running guest is asked, and may answer nothing; where its home is a directory of the host, nobody need be asked. A stopped one's
        disk is read on the host where the engine can show it; otherwise
        the sandbox is started for the question and stopped again.

        Raises:
            EngineUnknownError, SandboxGoneError: It cannot be said.
        """
        presence = await self.calls.presence(sandbox)
        if presence is Presence.RUNNING and Ability.HOST_HOME not in self.engine.abilities:
            return await self._ask_guest(sandbox, nonce)
        if Ability.HOST_VIEW in self.engine.abilities and isinstance(self.engine, HostView):
            return _compare(await self._look_on_host(self.engine, sandbox), nonce)
        await self.calls.start(sandbox)
        try:
            return await self._ask_guest(sandbox, nonce)
        finally:
            with anyio.CancelScope(shield=True):  # bounded by the call itself
                await self.calls.stop(sandbox)

    async def write_nonce(self, sandbox: str, nonce: str) -> None:
        """Put the nonce into a running guest, over standard input, in a file that only the guest's user can read (OWN-1).

        Raises:
            EngineUnknownError: The guest did not confirm it.
        """
        result = await self.calls.command(sandbox, self._at(sandbox, WRITE_PROOF_ARGV), stdin=proof(nonce))
        if result.code != 0:
            raise self._unknown("write the owner's proof", f"code {result.code}, timed out: {result.timed_out}")

    async def renew_nonce(self, sandbox: str, nonce: str) -> bool:
        """Put the nonce back into a running guest that lost it, in the place of whatever is there; return whether it holds now.

        A guest that makes this impossible hurts nobody: where this is called, the engine's own proof has decided.
        """
        try:
            await self.calls.command(sandbox, self._at(sandbox, RENEW_PROOF_ARGV), stdin=proof(nonce), limit=0)
            return await self.nonce_state(sandbox, nonce) is NonceState.MATCHES
        except JamError as error:
            self._log.warning("proof not written anew", sandbox=sandbox, code=error.code)
            return False

    async def settle_pending(self, sandbox: str) -> None:
        """Finish what an interrupted creation left: forget its record, or remove its sandbox if it is proven to be that one (OWN-5).

        Raises:
            OwnershipMismatchError: There is a sandbox that cannot be proven to be that creation's; the record stays.
            EngineUnknownError: It cannot be said; the record stays.
        """
        record = self.records.pending(sandbox)
        if record is None:
            return
        if await self.calls.presence(sandbox) is not Presence.ABSENT and not self._completed(record):
            await self.prove(sandbox, record.nonce)
            await self.remove_confirmed(sandbox)
            self.records.forget_marker(sandbox)
        self.records.forget_pending(sandbox)

    async def settle_all_pending(self) -> tuple[tuple[str, JamError], ...]:
        """Settle every interrupted creation, as at start-up; one that cannot be settled is returned and stops no other (START-1)."""
        failed = []
        for sandbox in self.records.all_pending():
            try:
                await self.settle_pending(sandbox)
            except JamError as error:
                self._log.warning("unfinished creation not settled", sandbox=sandbox, code=error.code)
                failed.append((sandbox, error))
        return tuple(failed)

    async def work(self, plan: Plan, presence: Presence) -> CloneWork | None:
        """Return what the private clone of a plan's sandbox holds now; ``None``: it has none (OWN-9)."""
        return await work_in_clone(self.calls, plan, presence, self._look)

    async def remove_confirmed(self, sandbox: str) -> None:
        """Remove a sandbox whose proof holds, and whose clone was looked at if an agent could write it, and see that it is gone.

        Raises:
            EngineUnknownError: It is still there, or that cannot be said.
        """
        await self.calls.remove(sandbox)
        if await self.calls.presence(sandbox) is not Presence.ABSENT:
            raise self._unknown("remove", f"{sandbox} is still there")

    def _completed(self, record: PendingCleanup) -> bool:
        """Whether the creation got as far as its marker, so that only the record is left over."""
        marker = self.records.marker(record.plan.name)
        return marker is not None and hmac.compare_digest(marker.nonce, record.nonce)

    async def _ask_guest(self, sandbox: str, nonce: str) -> NonceState:
        result = await self.calls.command(sandbox, self._at(sandbox, READ_PROOF_ARGV), limit=PROOF_BYTES)
        if result.timed_out or result.code is None:
            return NonceState.UNANSWERED
        return _compare(result.output if result.code == 0 else None, nonce)

    def _at(self, sandbox: str, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with the proof's place as this sandbox's guest sees it."""
        if Ability.HOST_HOME not in self.engine.abilities or not isinstance(self.engine, HostView):
            return argv
        home, _, name = GUEST_MARKER.rpartition("/")
        return (*argv[:-1], str(self.engine.host_path(sandbox, home) / name))

    async def _look_on_host(self, view: HostView, sandbox: str) -> bytes | None:
        # The home is no link; the file in it may be one, which reading it then refuses.
        home, _, name = GUEST_MARKER.rpartition("/")
        path = view.host_path(sandbox, home) / name
        try:
            return await anyio.to_thread.run_sync(lambda: read_small_file(path, limit=PROOF_BYTES))
        except (OSError, ValueError):
            return None  # missing, a link, a pipe, too large: whatever the guest made of it, it is not the proof

    def _unknown(self, operation: str, detail: str) -> EngineUnknownError:
        return EngineUnknownError(engine=self.engine.name, operation=operation, detail=detail)


def mcp_digest(plan: Plan) -> str:
    """Return the SHA-256 over the plan's MCP registrations, in their order, in hex."""
    registrations = [server.model_dump(mode="json") for server in plan.mcp_servers]
    return hashlib.sha256(json.dumps(registrations, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def proof(nonce: str) -> bytes:
    """Return the bytes of the guest's proof file."""
    return json.dumps({"nonce": nonce}, separators=(",", ":")).encode() + b"\n"


def differing(stored: Plan, asked: Plan) -> tuple[str, ...]:
    """Return the names of the fields in which two plans differ; never their values."""
    return tuple(name for name in Plan.model_fields if getattr(stored, name) != getattr(asked, name))


def _compare(found: bytes | None, nonce: str) -> NonceState:
    if found is None:
        return NonceState.MISSING
    return NonceState.MATCHES if hmac.compare_digest(found, proof(nonce)) else NonceState.DIFFERS


def _same_owner(stored: Owner, asked: Owner) -> bool:
    """The same owner, or the one reviewed transition: a session's Dedicated sandbox as that of the host with its UUID (OWN-4)."""
    if stored == asked:
        return True
    return (
        isinstance(stored, RuntimeSessionOwner)
        and isinstance(asked, RuntimeHostOwner)
        and (stored.agent_id, stored.session_id) == (asked.agent_id, asked.host_id)
    )
