"""The parts of the typed client that have modules of their own: ``client.approvals`` and the like."""

from __future__ import annotations

from jamcore.control.approvals import ApprovalClient, Ask, Change
from jamcore.control.clearing import ClearingClient
from jamcore.control.exports import ExportClient
from jamcore.control.imports import ImportClient
from jamcore.control.operations import Follow, OperationClient
from jamcore.control.plugins import PluginClient
from jamcore.control.removals import RemovalClient
from jamcore.control.workspaces import WorkspaceClient


class ClientParts:
    """What the client is made of besides its own operations.

    Attributes:
        approvals: What agents ask to do, and the answers.
        removals: What is kept of checkpoints, and removed.
        exports: Exports of workspaces.
        imports: Exports that were made elsewhere.
        clearing: What clears the disk: whole hosts, and exports.
        operations: Journaled operations and their stories.
        plugins: Plugins, and which are blocked.
        workspaces: Workspaces as they stand, and their recovery.
    """

    def __init__(self, ask: Ask, change: Change, follow: Follow) -> None:
        self.approvals = ApprovalClient(ask, change)
        self.removals = RemovalClient(ask, change)
        self.exports = ExportClient(ask, change)
        self.imports = ImportClient(change)
        self.clearing = ClearingClient(ask, change)
        self.operations = OperationClient(ask, follow)
        self.plugins = PluginClient(ask, change)
        self.workspaces = WorkspaceClient(ask, change)
