"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.domain.approvals import ApprovalPolicy

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--app-directory", metavar="DIR", help="Where Jam keeps everything. Default: JAM_HOME, then the platform's data directory."
    ),
]
RoomArgument = Annotated[
    str, typer.Argument(metavar="ROOM", help="A room's name, its id, or 8 or more characters of its id's beginning or end.")
]
ChangeArgument = Annotated[
    str, typer.Argument(metavar="CHANGE", help="A change request's id, or 8 or more characters of its beginning or end.")
]
CheckpointArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's id, or 8 or more characters of its beginning or end.")
]
ExportArgument = Annotated[
    str, typer.Argument(metavar="EXPORT", help="An export's id, or 8 or more characters of its beginning or end.")
]
OperationArgument = Annotated[
    str, typer.Argument(metavar="OPERATION", help="An operation's id, or 8 or more characters of its beginning or end.")
]
PatchDigestOption = Annotated[
    str | None,
    typer.Option(
        "--patch-sha256",
        metavar="SHA256",
        help="Of the patch that you reviewed; any other is refused. Default: the one that is there.",
    ),
]
ApprovalArgument = Annotated[
    str, typer.Argument(metavar="APPROVAL", help="An approval's id, or 8 or more characters of its beginning or end.")
]
ApprovalsOption = Annotated[
    ApprovalPolicy | None,
    typer.Option(
        "--approvals",
        help="Whether the agent asks before each command and change of files. Default: only where nothing isolates it.",
    ),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Return at once; the work goes on in the daemon.")]
EngineOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What makes the sandbox. Default: the strongest healthy engine; `local` makes none."),
]
ModelOption = Annotated[str | None, typer.Option(metavar="NAME", help="The model. Default: the agent's own.")]
EndpointOption = Annotated[
    str | None, typer.Option("--endpoint", metavar="URL", help="Talk to this model server instead of the provider's own.")
]
EndpointCredentialOption = Annotated[
    str | None,
    typer.Option("--endpoint-credential", metavar="NAME", help="The credential to send to --endpoint. Default: none is sent."),
]
AllowDirtyOption = Annotated[
    bool,
    typer.Option("--allow-dirty", help="Begin although the repository has uncommitted changes; they are not part of the clone."),
]
CpusOption = Annotated[
    float | None,
    typer.Option("--cpus", metavar="N", help="Processors that the sandbox may use together, such as 1.5. Default: all."),
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory of the whole sandbox, such as 4G. Default: no limit.")
]
MemoryPerProcessOption = Annotated[
    str | None,
    typer.Option(
        "--memory-per-process",
        metavar="SIZE",
        help="Address space of each process: a weaker limit, which holds where --memory cannot. Default: no limit.",
    ),
]
PidsOption = Annotated[
    int | None, typer.Option("--pids", metavar="N", help="Processes and threads at once. Default: the engine's own bound.")
]
DiskOption = Annotated[
    str | None, typer.Option("--disk", metavar="SIZE", help="The sandbox's own disk, such as 10G. Default: no limit.")
]
