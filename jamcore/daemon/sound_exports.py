"""Whether exports are sound now: read whole, for whoever is about to remove what they were made of (WS-7, WS-8)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from anyio import from_thread, to_thread

from jamcore.domain.errors import JamError
from jamcore.domain.kept_exports import KeptExport
from jamcore.system.files import Files, storage_error
from jamcore.workspace.exports.restore import ExportReader


class SoundExports:
    """Reads exports of one app directory, and changes nothing."""

    def __init__(self, app: Path, *, files: Files) -> None:
        self._reader = ExportReader(app, files=files)

    async def problem(self, export: KeptExport) -> str:
        """Return what is wrong with an export, all of it read; empty when it is sound."""
        return await to_thread.run_sync(partial(self._problem, export))

    async def first(self, exports: Iterable[KeptExport]) -> KeptExport | None:
        """Return the first sound one: what was so when it was made may not be so now."""
        for export in exports:
            if not await self.problem(export):
                return export
        return None

    def _problem(self, export: KeptExport) -> str:
        try:
            self._reader.verify(export.id, export.manifest_sha256, from_thread.check_cancelled)
        except OSError as error:
            return str(storage_error(error))
        except JamError as error:
            return str(error)
        return ""
