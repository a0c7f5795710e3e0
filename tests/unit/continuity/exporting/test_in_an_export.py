"""A checkpoint as a part of a whole export: covered by its sums, and a conversation again elsewhere (WS-5, WS-6)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import pytest

from jamcore.continuity.exporting.materialise import CheckpointExporter
from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.continuity import Activation
from jamcore.domain.exports import CHECKPOINT, ExportOrigin, ExportRequest
from jamcore.system.files import Files
from jamcore.workspace.exports.write import ExportWriter
from tests.unit.continuity.exporting.carrying import Carried, asked, builder, on_disk

if TYPE_CHECKING:
    from jamcore.domain.checkpoint_exports import CheckpointSummary
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


def request(world: World) -> ExportRequest:
    """Ask for an export of the host's one session."""
    origin = ExportOrigin(
        agent_id=world.host.agent_id,
        agent_name="agent",
        host_id=world.host.id,
        session_id=world.session.id,
        room_id=None,
        room_name=None,
        provider=world.host.provider,
        engine=world.host.engine,
    )
    return ExportRequest(export_id=world.ids.uuid(), origin=origin, source=WorkspaceSource.MANAGED)


@pytest.mark.guarantee("WS-5", "WS-6", "CONT-1")
async def test_a_workspace_and_its_conversation_go_together(make_world: MakeWorld, tmp_path: Path) -> None:
    """The manifest names the checkpoint that is in it, plain programs check its files, and it is resumed from there."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        here.log().write_bytes(b"{}\n" * 20_000)
        (here.state / "home/config").mkdir()
        (here.state / "home/config/link").symlink_to("/nowhere")
        tree = here.app / layout.session_workspace(here.host.id, here.session.id)
        tree.mkdir(parents=True)
        (tree / "code.py").write_bytes(b"pass\n")
        row = await here.capture()

        def checkpoint(into: Path) -> CheckpointSummary:
            return CheckpointExporter(here.generations).materialise(row, into, captures=here.captures)

        wanted = request(here)
        writer = ExportWriter(here.app, files=Files(), clock=here.clock)
        source = layout.session_workspace(here.host.id, here.session.id)
        done = await anyio.to_thread.run_sync(lambda: writer.write(wanted, source, checkpoint=checkpoint))
        export = here.app / layout.export_root(wanted.export_id)
        checked = await anyio.run_process(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=export, stderr=subprocess.STDOUT)
        assert checked.stdout == b""
        summary = done.manifest.checkpoint
        assert summary is not None
        assert (summary.checkpoint_id, summary.files) == (row.id, row.files)
        shutil.copytree(export, tmp_path / "moved")
        await builder(there).build(asked(there, Carried(tmp_path / "moved" / CHECKPOINT, summary)))
        shutil.rmtree(there.state)
        decision = await there.inspect()
        assert decision.outcome is Activation.EXACT_RESUME
        await there.place(decision)
        assert on_disk(there.state) == on_disk(here.state)
