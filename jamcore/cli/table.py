"""Every command by the words that call it. Imports nothing, so that help costs nothing."""

from __future__ import annotations


class Command:
    """One command. A plain class: what makes records of classes would cost as much as the whole help.

    Args:
        path: The words that call it.
        module: Its module below ``jamcore.cli.commands``.
        section: Where the help lists it.
        summary: One line for the list.
        listed: Another spelling of a listed command is not listed itself.
        lists: Name in ``jamcore.cli.lists``: what it prints when there are no options but ``--json``, without typer, which costs 60 ms.
    """

    __slots__ = ("listed", "lists", "module", "path", "section", "summary")

    def __init__(
        self, path: tuple[str, ...], module: str, section: str, summary: str, *, listed: bool = True, lists: str = ""
    ) -> None:
        self.path = path
        self.module = module
        self.section = section
        self.summary = summary
        self.listed = listed
        self.lists = lists

    @property
    def name(self) -> str:
        """The words as they are typed."""
        return " ".join(self.path)


WORK = "Give an agent work"
ROOMS = "Talk with an agent"
REVIEW = "Review what it did"
MACHINE = "This machine"

SECTIONS = (WORK, ROOMS, REVIEW, MACHINE)

COMMANDS: tuple[Command, ...] = (
    Command(("demo",), "demo", WORK, "Show Jam at work: a real agent, killed and brought back; needs no account"),
    Command(("run",), "run", WORK, "Give an agent an objective; ends in a change request"),
    Command(("ls",), "room_ls", ROOMS, "List rooms", lists="ROOMS"),
    Command(("say",), "room_say", ROOMS, "Say something in a room and watch the answer"),
    Command(("attach",), "room_attach", ROOMS, "Watch a room live and talk in it"),
    Command(("stop",), "room_stop", ROOMS, "Checkpoint a room and park its sandbox"),
    Command(("resume",), "room_resume", ROOMS, "Bring a room back to its exact conversation"),
    Command(("room", "new"), "room_new", ROOMS, "Open a room: an agent in its own sandbox and workspace"),
    Command(("room", "show"), "room_show", ROOMS, "Show one room and its turns"),
    Command(("room", "interrupt"), "room_interrupt", ROOMS, "Interrupt the turn that runs"),
    Command(("checkpoint", "ls"), "checkpoint_ls", ROOMS, "List a room's checkpoints"),
    Command(("checkpoint", "show"), "checkpoint_show", ROOMS, "Show what a checkpoint holds"),
    Command(("checkpoint", "verify"), "checkpoint_verify", ROOMS, "Read a checkpoint whole and say whether it is sound"),
    Command(("checkpoint", "rm"), "checkpoint_rm", ROOMS, "Show what removing checkpoints would free, or remove them"),
    Command(("checkpoint", "diff"), "checkpoint_diff", ROOMS, "Show what lies between two checkpoints"),
    Command(("export", "new"), "export_new", ROOMS, "Export a room's workspace and conversation as plain files"),
    Command(("export", "ls"), "export_ls", ROOMS, "List exports"),
    Command(("export", "show"), "export_show", ROOMS, "Show what an export holds, and what it left out"),
    Command(("export", "verify"), "export_verify", ROOMS, "Read an export whole and say whether it is sound"),
    Command(("export", "import"), "export_import", ROOMS, "Take in an export that was made on another machine"),
    Command(
        ("export", "confirm"), "export_confirm", ROOMS, "Show what there is to confirm of an export from elsewhere, or confirm it"
    ),
    Command(("export", "restore"), "export_restore", ROOMS, "Make a room of a confirmed export from elsewhere"),
    Command(("export", "rm"), "export_rm", ROOMS, "Show what deleting an export would take away, or delete it"),
    Command(("workspace", "archive"), "workspace_archive", ROOMS, "Show what archiving a room's files would do, or do it"),
    Command(("workspace", "restore"), "workspace_restore", ROOMS, "Bring a room's archived files back"),
    Command(
        ("continuity", "inspect"), "continuity_inspect", ROOMS, "Say whether a conversation can be brought back, with the evidence"
    ),
    Command(("continuity", "start-fresh"), "continuity_start_fresh", ROOMS, "Begin a new conversation where the old one cannot be"),
    Command(("session", "inspect"), "session_inspect", ROOMS, "Show the evidence that a conversation can be brought back"),
    Command(("approvals", "ls"), "approvals_ls", ROOMS, "List what agents asked to do"),
    Command(("approvals", "show"), "approvals_show", ROOMS, "Show what an agent asked to do"),
    Command(("approvals", "decide"), "approvals_decide", ROOMS, "Answer an agent: this once, no, or always"),
    Command(("approvals", "rules", "ls"), "approvals_rules_ls", ROOMS, "List what was allowed for good"),
    Command(("approvals", "rules", "rm"), "approvals_rules_rm", ROOMS, "Remove such a rule"),
    Command(("room", "ls"), "room_ls", ROOMS, "List rooms", listed=False, lists="ROOMS"),
    Command(("room", "say"), "room_say", ROOMS, "Say something in a room and watch the answer", listed=False),
    Command(("room", "attach"), "room_attach", ROOMS, "Watch a room live and talk in it", listed=False),
    Command(("room", "stop"), "room_stop", ROOMS, "Checkpoint a room and park its sandbox", listed=False),
    Command(("room", "resume"), "room_resume", ROOMS, "Bring a room back to its exact conversation", listed=False),
    Command(("change", "ls"), "change_ls", REVIEW, "List change requests"),
    Command(("change", "show"), "change_show", REVIEW, "Show a change request with its patch"),
    Command(("change", "accept"), "change_accept", REVIEW, "Put a change request on a branch of your repository"),
    Command(("change", "reject"), "change_reject", REVIEW, "Reject a change request and tell the agent why"),
    Command(("change", "new"), "change_new", REVIEW, "Make a change request of a room's files as they are now"),
    Command(("doctor",), "doctor", MACHINE, "What this machine can do, and what to do about each gap"),
    Command(("provider", "ls"), "provider_ls", MACHINE, "List the agents that Jam can run"),
    Command(("provider", "cells"), "provider_cells", MACHINE, "List the legal combinations of workspace and placement"),
    Command(("provider", "install"), "provider_install", MACHINE, "Get an agent's pinned program"),
    Command(("providers", "ls"), "provider_ls", MACHINE, "List the agents that Jam can run", listed=False),
    Command(("providers", "cells"), "provider_cells", MACHINE, "List the legal combinations", listed=False),
    Command(("plugin", "ls"), "plugin_ls", MACHINE, "List plugins: where each comes from, and what is wrong with it"),
    Command(("plugin", "new"), "plugin_new", MACHINE, "Make a plugin of your own that passes Jam's suite at once"),
    Command(("plugin", "check"), "plugin_check", MACHINE, "Check plugins against Jam's suite, in one report"),
    Command(("plugin", "block"), "plugin_block", MACHINE, "Never load a plugin again"),
    Command(("plugin", "unblock"), "plugin_unblock", MACHINE, "Load a blocked plugin again"),
    Command(("credential", "set"), "credential_set", MACHINE, "Keep an API key in the daemon; the sandbox never sees it"),
    Command(("credential", "ls"), "credential_ls", MACHINE, "List credentials by name"),
    Command(("credential", "forget"), "credential_forget", MACHINE, "Forget a credential"),
    Command(("daemon", "status"), "daemon_status", MACHINE, "Say whether the daemon runs"),
    Command(("daemon", "start"), "daemon_start", MACHINE, "Start the daemon"),
    Command(("daemon", "stop"), "daemon_stop", MACHINE, "Stop the daemon; work is kept and comes back"),
    Command(("daemon", "restart"), "daemon_restart", MACHINE, "Stop the daemon and start it again, in this release"),
    Command(("daemon", "logs"), "daemon_logs", MACHINE, "Show the daemon's log"),
    Command(("host", "ls"), "host_ls", MACHINE, "List all sandboxes, and how they stand to what Jam knows"),
    Command(("host", "capacity"), "host_capacity", MACHINE, "Show what sandboxes and exports take on the disk"),
    Command(("host", "cleanup"), "host_cleanup", MACHINE, "Show what removing a whole sandbox would take away, or remove it"),
    Command(("host", "override"), "host_override", MACHINE, "Remove a sandbox that lost its proof of ownership; its files stay"),
    Command(("workspace", "inspect"), "workspace_inspect", ROOMS, "Show how a room's workspace stands, and what can be done"),
    Command(("workspace", "recover"), "workspace_recover", ROOMS, "Recover a workspace that something is wrong with"),
    Command(("operation", "ls"), "operation_ls", MACHINE, "List what Jam did beside conversations, and what has not ended"),
    Command(("operation", "show"), "operation_show", MACHINE, "Tell an operation step by step, and what to do when it failed"),
    Command(("operation", "watch"), "operation_watch", MACHINE, "Follow an operation to its end"),
    Command(("config", "show"), "config_show", MACHINE, "Show every setting and where it comes from"),
)


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """Return the command that the first words call, and the words after them."""
    for command in COMMANDS:
        size = len(command.path)
        if tuple(words[:size]) == command.path:
            return command, words[size:]
    return None


def group(word: str) -> tuple[Command, ...]:
    """Return the commands that begin with a word."""
    return tuple(command for command in COMMANDS if len(command.path) > 1 and command.path[0] == word)


def first_words() -> tuple[str, ...]:
    """Return every word that may come first."""
    return tuple(dict.fromkeys(command.path[0] for command in COMMANDS))
