"""A checkpoint inside an export is described, verified and found damaged like the workspace (WS-5)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain.checkpoint_exports import CheckpointExportRefusedError, CheckpointScope, CheckpointSummary
from jamcore.domain.exports import ExportDamagedError, TreeTotals
from tests.unit.workspace.exports.conftest import World

pytestmark = pytest.mark.unprivileged

SUMMARY = CheckpointSummary(
    digest="0" * 64,
    checkpoint_id=UUID(int=9),
    generation=3,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    provider="double",
    provider_version="1.0.0",
    scope=CheckpointScope.HOST,
    sessions=(),
    files=1,
    bytes_total=5,
    left_out=0,
)


def materialise(into: Path) -> CheckpointSummary:
    """Write what stands for a checkpoint."""
    (into / "checkpoint.json").write_text("{}\n")
    (into / "files" / "home").mkdir(parents=True)
    (into / "files" / "home" / "log").write_text("state")
    return SUMMARY


@pytest.mark.guarantee("WS-5")
def test_a_checkpoint_is_part_of_the_export(world: World) -> None:
    """The manifest says which it is, the entries and the sums have its files, and the restored workspace has none of it."""
    (world.tree / "file").write_text("x")
    done = world.write(checkpoint=materialise)
    assert done.manifest.checkpoint == SUMMARY
    assert done.manifest.checkpoint_files == TreeTotals(files=2, directories=3, bytes_total=8)
    assert world.verify(done.digest) == done
    assert b"  checkpoint/files/home/log\n" in (world.export / "SHA256SUMS").read_bytes()
    assert [path.name for path in world.restore(done.digest).iterdir()] == ["file"]


@pytest.mark.guarantee("WS-5")
def test_damage_of_a_checkpoint_is_found(world: World) -> None:
    """And the workspace beside it is not restored: it would be without its conversation."""
    done = world.write(checkpoint=materialise)
    (world.export / "checkpoint" / "files" / "home" / "log").unlink()
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(done.digest)
    assert "checkpoint/files/home/log: is missing" in damaged.value.named
    with pytest.raises(ExportDamagedError):
        world.restore(done.digest)


@pytest.mark.guarantee("WS-5")
def test_a_checkpoint_that_may_not_go_along_ends_the_export(world: World) -> None:
    """What it wrote by then is removed."""

    def refuse(into: Path) -> CheckpointSummary:
        materialise(into)
        raise CheckpointExportRefusedError(path="files/key", reason="it holds a private key")

    with pytest.raises(CheckpointExportRefusedError):
        world.write(checkpoint=refuse)
    assert world.published == []


@pytest.mark.guarantee("WS-5")
def test_an_export_without_a_checkpoint_has_no_such_directory(world: World) -> None:
    """One that appears is found."""
    done = world.write()
    assert (done.manifest.checkpoint, done.manifest.checkpoint_files) == (None, None)
    (world.export / "checkpoint").mkdir()
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(done.digest)
    assert damaged.value.named == ("checkpoint: does not belong to the export",)
