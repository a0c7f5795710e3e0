"""One repository object for each aggregate, all on one transaction."""

from __future__ import annotations

from jamcore.store.repos.approvals import ApprovalRules, Approvals
from jamcore.store.repos.base import Context, Fence
from jamcore.store.repos.continuity import Activations, Checkpoints, Observations
from jamcore.store.repos.exports import Exports, HostCleanups
from jamcore.store.repos.host_native import HostNativeWorkspaces
from jamcore.store.repos.hosts import Agents, Hosts, Leases, Sessions, Workspaces
from jamcore.store.repos.operations import Operations
from jamcore.store.repos.resets import ContinuityResets
from jamcore.store.repos.retention import PayloadDeletions
from jamcore.store.repos.rooms import Bindings, Events, Rooms
from jamcore.store.repos.safekeeping import UnsavedHosts, Verifications
from jamcore.store.repos.turns import Turns
from jamcore.store.repos.work import ChangeDecisions, Changes, Runs


class Repos:
    """The repositories of one transaction. Valid only inside the function that was given it."""

    def __init__(self, context: Context) -> None:
        self.agents = Agents(context)
        self.hosts = Hosts(context)
        self.sessions = Sessions(context)
        self.workspaces = Workspaces(context)
        self.host_native = HostNativeWorkspaces(context)
        self.leases = Leases(context)
        self.rooms = Rooms(context)
        self.bindings = Bindings(context)
        self.turns = Turns(context)
        self.events = Events(context)
        self.operations = Operations(context)
        self.exports = Exports(context)
        self.host_cleanups = HostCleanups(context)
        self.runs = Runs(context)
        self.changes = Changes(context)
        self.change_decisions = ChangeDecisions(context)
        self.checkpoints = Checkpoints(context)
        self.activations = Activations(context)
        self.observations = Observations(context)
        self.payload_deletions = PayloadDeletions(context)
        self.continuity_resets = ContinuityResets(context)
        self.unsaved_hosts = UnsavedHosts(context)
        self.verifications = Verifications(context)
        self.approvals = Approvals(context)
        self.approval_rules = ApprovalRules(context)


__all__ = ["Context", "Fence", "Repos"]
