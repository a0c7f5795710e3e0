"""From the words of a command line to the request for a room."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Configuration, Placement, WorkspaceSource
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.requests import EndpointChoice, RoomRequest
from jamcore.domain.sandboxes import Resources

NO_LIMITS = Resources()
_WITH_PATH = re.compile(r"\w+://[^/]+/")


def endpoint(url: str | None, credential: str | None) -> EndpointChoice | None:
    """Return the chosen model endpoint.

    Raises:
        InvalidInputError: A credential without an endpoint to send it to, or an address with a path.
    """
    if url is None:
        if credential is not None:
            raise InvalidInputError(field="--endpoint-credential", problem="it needs --endpoint")
        return None
    if _WITH_PATH.match(url):
        raise InvalidInputError(field="--endpoint", problem="leave the path off: scheme://host[:port]")
    return EndpointChoice(origin=url, credential=credential)


def room_request(
    identifier: UUID,
    provider: str,
    *,
    name: str | None = None,
    repo: Path | None = None,
    direct: Path | None = None,
    placement: Placement = Placement.DEDICATED,
    agent: str | None = None,
    configuration: Configuration = Configuration.JAM_MANAGED,
    environment_files: Iterable[Path] = (),
    engine: str | None = None,
    model: str | None = None,
    approvals: ApprovalPolicy | None = None,
    allow_dirty: bool = False,
    choice: EndpointChoice | None = None,
    limits: Resources = NO_LIMITS,
) -> RoomRequest:
    """Return the request. Whether the combination is legal is the daemon's to say, from its one table (CAP-5).

    Raises:
        InvalidInputError: Two workspaces were named, or a path has no valid Unicode name.
    """
    if repo is not None and direct is not None:
        raise InvalidInputError(field="--direct", problem="--repo names the workspace already")
    workspace, path = WorkspaceSource.MANAGED, None
    if repo is not None:
        workspace, path = WorkspaceSource.PRIVATE_HOST_CLONE, _text(checkout(repo), "--repo")
    elif direct is not None:
        workspace, path = WorkspaceSource.DIRECT_HOST, _text(_absolute(direct), "--direct")
    return RoomRequest(
        id=identifier,
        name=name,
        provider=provider,
        agent=agent,
        engine=engine,
        configuration=configuration,
        workspace=workspace,
        placement=placement,
        path=path,
        environment_files=tuple(_text(_absolute(file), "--environment-file") for file in environment_files),
        allow_dirty=allow_dirty,
        model=model,
        approvals=approvals,
        endpoint=choice,
        resources=limits,
    )


def checkout(path: Path) -> Path:
    """Return the checkout that ``path`` lies in: the nearest directory with a ``.git``, or ``path`` for the daemon to refuse."""
    start = _absolute(path)
    for directory in (start, *start.parents):
        if os.path.lexists(directory / ".git"):
            return directory
    return start


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - resolve() would follow the user's symbolic links


def _text(path: Path, option: str) -> str:
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(field=option, problem="the path is no valid UTF-8") from error
