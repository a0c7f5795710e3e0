"""Exports from elsewhere: taken in, looked at, and confirmed (WS-6, SEC-7)."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import UUID

from anyio import from_thread

from jamcore.continuity.exporting.building import CheckpointBuilder
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.options import DaemonOptions
from jamcore.domain import layout
from jamcore.domain.cells import UnknownProviderError
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError, CheckpointSummary
from jamcore.domain.errors import ConflictError
from jamcore.domain.exports import CHECKPOINT, ExportManifest, ExportOrigin, Listed
from jamcore.domain.imports import (
    ConfirmRequest,
    ConversationClaim,
    ImportEvidence,
    ImportRequest,
    ImportView,
    NotFromElsewhereError,
)
from jamcore.domain.kept_exports import ExportMaker, ExportState, IdMapping, KeptExport
from jamcore.domain.plugins import PluginBlockedError, PluginIncompatibleError
from jamcore.domain.providers import ToolchainMissingError
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.gate import StopGate
from jamcore.sandbox.toolchain import Toolchains
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.files import storage_error
from jamcore.workspace.exports.taking import ExportTaker
from jamcore.workspace.exports.verify import Verified
from jamcore.workspace.keeping.exporting import WRITING
from jamcore.workspace.keeping.importing import ImportIntent, NewIds, import_action


class Imports:
    """See :class:`~jamcore.daemon.services.ImportService`; adds the journaled import to ``actions``."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        plugins: ProviderManager,
        making: ExportMaking,
        builder: CheckpointBuilder,
        toolchains: Toolchains,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._options = options
        self._app = options.app
        self._store = store
        self._plugins = plugins
        self._making = making
        self._builder = builder
        self._toolchains = toolchains
        self._gate = gate
        self._runner = runner
        reach = options.crash.reach
        self._taker = ExportTaker(options.app, files=options.files, reach=lambda name: reach(f"{WRITING}{name}"))
        self._action = import_action(self)
        actions.register(self._action)

    async def take(self, request: ImportRequest) -> ImportView:
        """Take an export in. An exact retry changes nothing and returns what there is to confirm.

        Raises:
            ImportNamesError, ImportRefusedError, ExportDamagedError, ExportRefusedError, TreeChangedError: Nothing was taken in.
            ConflictError: The id was used for something else.
        """
        with self._gate.until_stop("take an export in"):
            done = await self._runner.run(
                self._action, request.id, ImportIntent(id=request.id, export_id=request.id, path=request.path)
            )
        return await self.inspect(str(done.id))

    async def inspect(self, ref: str) -> ImportView:
        """Read one whole and return what there is to confirm.

        Raises:
            NotFromElsewhereError: It was made here.
            ExportDamagedError: It is not what was taken in.
        """
        row = await self._store.read(partial(_from_elsewhere, ref))
        evidence = await self._evidence(row, (await self._making.verified(row.id, row.manifest_sha256)).manifest)
        path = str(self._app.resolve() / layout.export_root(row.id))
        return ImportView(
            export=row,
            path=path,
            evidence=evidence,
            digest=evidence.content_digest(),
            program_missing=self._program_missing(evidence.origin.provider),
        )

    async def confirm(self, ref: str, request: ConfirmRequest) -> ImportView:
        """Let one be restored, if all is what was confirmed. One that was confirmed already stays so.

        Raises:
            ImportEvidenceChangedError: It is not; nothing was changed.
        """
        view = await self.inspect(ref)
        view.evidence.require_confirmed(request.confirmed)
        row = await self._store.transact(partial(_confirmed, view.export.id, self._options.clock.now()))
        return view.model_copy(update={"export": row})

    async def claim(self, row: KeptExport, manifest: ExportManifest) -> ConversationClaim:
        """Read the checkpoint of an export as a build would, and say whether its conversation can be taken up here."""
        if manifest.checkpoint is None:
            return ConversationClaim(checkpoint=None, problem="no conversation is in it")
        problem = await self._problem(row, manifest.request.origin, manifest.checkpoint)
        return ConversationClaim(checkpoint=manifest.checkpoint, problem=problem)

    # -------------------------------------------------------------------------------------------------- what the action asks

    def mint(self) -> NewIds:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        new = self._options.ids.uuid
        return NewIds(agent_id=new(), session_id=new(), room_id=new(), checkpoint_id=new())

    async def copy(self, intent: ImportIntent) -> tuple[str, Listed]:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        if await self._store.read(lambda repos: repos.exports.find_id(intent.export_id)) or self._taker.is_published(intent.id):
            raise ConflictError(kind="export", ref=str(intent.export_id), problem="there is one of this id already")
        take = partial(self._taker.copy, intent.export_id, Path(intent.path), from_thread.check_cancelled)
        taken = await in_thread(take)
        return taken.digest, taken.credentials

    async def publish(self, intent: ImportIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        await in_thread(partial(self._taker.publish, intent.export_id))

    async def is_published(self, intent: ImportIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        return await in_thread(partial(self._taker.is_published, intent.export_id))

    async def keep(self, intent: ImportIntent, digest: str) -> KeptExport:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        verified = await self._making.verified(intent.export_id, digest)
        now = self._options.clock.now()
        return await self._store.transact(partial(_keep, _row(intent, verified), _mapped(intent, verified.manifest), now))

    async def give_up(self, intent: ImportIntent, error: Exception) -> None:
        """See :class:`~jamcore.workspace.keeping.importing.ImportSources`."""
        del error
        kept = await self._store.read(lambda repos: repos.exports.find_id(intent.export_id))
        await in_thread(partial(self._taker.drop, intent.export_id, published=kept is None and intent.digest is not None))

    # ---------------------------------------------------------------------------------------------------------------- inside

    async def _evidence(self, row: KeptExport, manifest: ExportManifest) -> ImportEvidence:
        taken = await self._store.read(partial(taken_in, self._action.record, row.id))
        return ImportEvidence(
            export_id=row.id,
            claimed_id=manifest.request.export_id,
            manifest_sha256=row.manifest_sha256,
            origin=manifest.request.origin,
            provider_installed=self._hooks(manifest.request.origin.provider) is not None,
            workspace=manifest.workspace,
            conversation=await self.claim(row, manifest),
            credentials=taken.credentials,
            stripped=manifest.stripped,
            left_out=manifest.left_out,
        )

    def _program_missing(self, provider: str) -> str:
        hooks = self._hooks(provider)
        spec = hooks.description.toolchain if hooks else None
        if spec is None:
            return ""
        try:
            self._toolchains.require(provider, spec)
        except ToolchainMissingError:
            return f"version {spec.version} of {provider}'s program"
        return ""

    def _hooks(self, provider: str) -> ProviderHooks | None:
        try:
            return self._plugins.provider(provider)
        except UnknownProviderError:
            return None

    def _absence(self, provider: str) -> str:
        """Say why a provider's plugin is not to be had, which decides what a person can do about it."""
        try:
            self._plugins.provider(provider)
        except PluginBlockedError as error:
            return f"is blocked here; to undo it: {error.unblock}"
        except PluginIncompatibleError as error:
            return f"is not for this Jam: {error.problem}"
        except UnknownProviderError:
            return "is not installed here, or was not loaded"
        return ""

    async def _problem(self, row: KeptExport, origin: ExportOrigin, held: CheckpointSummary) -> str:
        """Return why a conversation cannot be taken up here; empty when it can."""
        hooks = self._hooks(origin.provider)
        if hooks is None:
            return f"the plugin of {origin.provider} {self._absence(origin.provider)}"
        if not hooks.description.continuity:
            return f"{origin.provider} does not bring conversations back"
        if held.provider != origin.provider or [each.session_id for each in held.sessions] != [origin.session_id]:
            return "it holds other conversations than that of its room"
        spec = hooks.description.toolchain
        current = spec.version if spec else "unknown"
        if not await hooks.accepts_version(held.provider_version, current):
            return f"it was written by version {held.provider_version}, which version {current} here does not resume"
        directory = self._app / layout.export_root(row.id) / CHECKPOINT
        try:
            found = await self._builder.inspect(directory, captures=await hooks.declare_capture(), digest=held.digest)
        except CheckpointImportRefusedError as error:
            return f"{error.path}: {error.reason}"
        except OSError as error:
            raise storage_error(error) from error
        return "" if found == held else "its list of files says other things than the manifest"


def taken_in(record: type[ImportIntent], export: UUID, repos: Repos) -> ImportIntent:
    """Return what the import of an export noted last: its new ids, and what was found in it."""
    _, _, text = repos.operations.steps(export)[-1]
    return record.model_validate_json(text)


def _from_elsewhere(ref: str, repos: Repos) -> KeptExport:
    row = repos.exports.find(ref)
    if row.maker is not ExportMaker.ELSEWHERE:
        raise NotFromElsewhereError(export=str(row.id), problem="it was made here")
    if row.state not in (ExportState.QUARANTINED, ExportState.PUBLISHED):
        raise NotFromElsewhereError(export=str(row.id), problem=f"it is {row.state}")
    return row


def _confirmed(export: UUID, now: datetime, repos: Repos) -> KeptExport:
    repos.exports.move(export, ExportState.PUBLISHED)
    repos.exports.verified(export, now)
    return repos.exports.get(export)


def _keep(row: KeptExport, mapped: tuple[IdMapping, ...], now: datetime, repos: Repos) -> KeptExport:
    repos.exports.insert(row)
    repos.exports.map_ids(mapped)
    repos.exports.verified(row.id, now)
    return repos.exports.get(row.id)


def _row(intent: ImportIntent, verified: Verified) -> KeptExport:
    manifest = verified.manifest
    totals = [each for each in (manifest.workspace, manifest.checkpoint_files) if each is not None]
    return KeptExport(
        id=intent.export_id,
        maker=ExportMaker.ELSEWHERE,
        state=ExportState.QUARANTINED,
        agent_id=None,
        host_id=None,
        session_id=None,
        workspace_id=None,
        room_id=None,
        checkpoint_id=None,
        manifest_sha256=verified.digest,
        files=sum(each.files for each in totals),
        bytes_total=sum(each.bytes_total for each in totals),
        created_at=manifest.created_at,
        verified_at=None,
    )


def _mapped(intent: ImportIntent, manifest: ExportManifest) -> tuple[IdMapping, ...]:
    """Return what each id that an export names becomes here; a host of its own bears the id of its session."""
    ids, origin = intent.new_ids(), manifest.request.origin
    pairs: list[tuple[str, UUID | None, UUID]] = [
        ("export", manifest.request.export_id, intent.export_id),
        ("agent", origin.agent_id, ids.agent_id),
        ("host", origin.host_id, ids.session_id),
        ("session", origin.session_id, ids.session_id),
        ("room", origin.room_id, ids.room_id),
        ("checkpoint", manifest.checkpoint.checkpoint_id if manifest.checkpoint else None, ids.checkpoint_id),
    ]
    return tuple(IdMapping(export_id=intent.export_id, what=what, old_id=old, new_id=new) for what, old, new in pairs if old)
