"""Every bound in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

READ_TIMEOUT_S = 12.0
"""Read-only engine calls (START-4)."""
CREATE_TIMEOUT_S = 600.0
"""Engine create: an image pull of 298 s was seen in the field (START-4)."""
LIFECYCLE_TIMEOUT_S = 300.0
"""Other engine lifecycle calls (START-4)."""
PREPARE_TIMEOUT_S = 630.0
"""Whole preparation; longer than a create (START-4)."""
CHILD_SHUTDOWN_S = 3.0
"""A provider's process after its input was closed (START-4)."""
FINALISE_TIMEOUT_S = 30.0
"""Finalisation of one runtime: interrupt, checkpoint, park (START-4)."""
LAST_WRITE_S = 5.0
"""A row that must not be lost to a cancellation: its write is shielded for so long, and a database that is busy longer is broken."""
FORCED_EXIT_S = 45.0
"""The daemon's backstop; longer than a finalisation (START-4)."""
PARK_RETRY_S = 1.0
"""A failed park is tried again this often until it is done (START-5)."""
NETWORK_CHECK_S = 15.0
"""A network check: an engine's read and what surrounds it (START-4)."""
TURN_IDLE_TIMEOUT_S = 600.0
"""A turn of which nothing is heard while nothing of it runs or is asked: models think for minutes, and an agent that asks a failing one
again for ever says nothing of it."""
TURN_SILENCE_TOLD_S = 120.0
"""After so much of that silence a person is told, once in a turn: few models think for longer without a word."""
TURN_TIMEOUT_S = 86_400.0
"""A whole turn, without what a person takes to answer: turns of hours are real, one of more than a day has run away."""
AROUND_PREPARATION_S = 120.0
"""What a bring-up does besides the preparation: the activation before it, the provider's start and resume after it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits that a person may set, in seconds; made once from the settings and passed to where each one acts (START-4).

    Those of a turn are 0 for none.
    """

    read_s: float = READ_TIMEOUT_S
    create_s: float = CREATE_TIMEOUT_S
    lifecycle_s: float = LIFECYCLE_TIMEOUT_S
    prepare_s: float = PREPARE_TIMEOUT_S
    child_shutdown_s: float = CHILD_SHUTDOWN_S
    finalise_s: float = FINALISE_TIMEOUT_S
    forced_exit_s: float = FORCED_EXIT_S
    network_check_s: float = NETWORK_CHECK_S
    turn_idle_s: float = TURN_IDLE_TIMEOUT_S
    turn_s: float = TURN_TIMEOUT_S

    @property
    def bring_up_s(self) -> float:
        """A whole bring-up."""
        return self.prepare_s + AROUND_PREPARATION_S


DEFAULTS = Limits()
"""What holds when nothing was set."""


CAPTURE_FILES = 100_000
CAPTURE_BYTES = 20 * (1 << 30)
CAPTURE_DEPTH = 64
"""Bounds of one checkpoint (CONT-4)."""
EXPORTED_BYTES = 64 << 20
EXPORTED_SESSIONS = 10_000
"""Largest ``checkpoint.json`` of an export, and sessions in it: some 600 bytes for each file of the largest checkpoint; as many sessions as
``complete.json`` has room for."""
LINK_BYTES = 4095
"""Longest target of a Linux symbolic link."""
DATABASES = 64
DATABASE_BYTES = 2 * (1 << 30)
DATABASE_NAMES = 20_000
"""Databases of one checkpoint, their bytes, and the names that may be looked at to find them (CONT-5). Two GiB in pages of 4 KiB are half
a million blocks, which cost 100 MB of memory."""
DATABASE_MEMORY = 512 << 20
"""Address space of the helper that copies them; SQLite needs a few MB, and Python some 30."""
DATABASE_COPY_S = 20.0
"""From the helper's start to the copies: the guest stands still meanwhile. 20 MB take some 50 ms."""
DATABASE_SEND_S = 300.0
"""For checking, sending and writing them, and for the helper's processor time."""
CHECKPOINT_WAIT_S = 600.0
"""How long a checkpoint or a restore waits for the turns of a host's other sessions; turns of minutes are ordinary (CONT-2)."""
CAPTURE_ASK_S = 0.25
"""How long a capture that can be made later waits for other rooms' turns, and so how long it may keep their next ones (CONT-2)."""
CAPTURE_DEFERRED_S = 300.0
"""How long such a capture steps back; then it waits in the queue like everybody, so that it is not starved by turns that overlap."""
CAPTURE_RETRY_S = 5.0
CAPTURE_RETRY_MAX_S = 300.0
"""A capture that failed, or was put off, is tried again after so long; each time after twice as long, up to the larger one."""

TURN_TEXT_CHARACTERS = 1 << 20
"""Characters of a person's message; the largest input that a provider is known to accept."""
DELTA_COMMIT_S = 0.05
"""Deltas are committed in groups of this length (decision on events)."""
PROVIDER_LINE_BYTES = 8 << 20
"""Longest message of a provider's JSON-RPC; a longer one ends the connection with a typed error."""
PROVIDER_REQUEST_S = 60.0
"""A provider's answer to one request that is not a turn."""
APPROVAL_DEADLINE_S = 600.0
"""A person's answer to an agent's question; then it is no, so that a turn never waits for somebody who has gone home."""
ENVIRONMENT_VALUE_BYTES = 32 << 10
ENVIRONMENT_PAIRS = 256
"""Bounds of what a plan may put in a guest's environment."""
RELAY_REQUEST_BYTES = 64 << 20
"""Body of one request to the model: whole histories are sent every time, so tens of MiB are real."""
RELAY_RESPONSE_BYTES = 256 << 20
RELAY_CONCURRENT = 32
SOCKET_PATH_BYTES = 108
"""Size of ``sun_path`` on Linux, with its terminating NUL (SEC-6)."""
PATCH_BYTES = 64 << 20
"""Largest patch that a change request holds."""
HOOK_S = 5.0
"""One decision of a plugin: hooks are pure, so seconds mean that it hangs."""
HOOK_ASYNC_S = 30.0
"""One asynchronous hook: it may look at a file or ask a local program, never start the provider."""
PLUGIN_IMPORT_S = 15.0
"""Importing and constructing one plugin: a cold disk takes seconds, a hang must not stop the daemon."""
TOOLCHAIN_INSTALL_S = 1800.0
"""Getting a provider's pinned program: hundreds of MiB over a slow line."""
TOOLCHAIN_BYTES = 2 << 30
TOOLCHAIN_FILES = 20_000
"""Bounds of an installed program, and of what is unpacked from one archive; the largest known one has 450 MB in 250 files."""
TOOLCHAIN_UNPACK_S = 300.0
"""A program that unpacks the rest of itself: 235 MB take 3 s on a quiet machine."""

INSPECTION_S = 60.0
"""A whole removal inspection: a person waits for it, and 100,000 files are compared in half of it on an ordinary disk (WS-16)."""
INSPECTION_GIT_S = 30.0
"""One question of it to git. A second one of this length still fits, and what takes longer is unknown, which blocks."""
INSPECTION_ENTRIES = 200_000
"""Names of the tree; a checkout with the dependencies of a large program has half as many."""
INSPECTION_DEPTH = 128
"""Directories within one another: each holds a descriptor while it is walked, and a process has 1024."""
INSPECTION_PATH_BYTES = 4000
"""One path below the tree: the system takes 4,095 bytes, and git opens files by such paths."""
INSPECTION_NAMES_BYTES = 64 << 20
"""All of these paths together are kept in memory; 200,000 ordinary ones have 16 MB."""
INSPECTION_REPOSITORIES = 64
"""Git directories, and checkouts; each costs about ten runs of git."""
INSPECTION_UNREADABLE = 64
"""Places that cannot be read are named up to here; more of them say nothing new."""
INSPECTION_SHOWN = 20
"""Paths, subjects and names that are shown of each list; its count has the rest."""
INSPECTION_COMMITS = 1000
"""Commits of each kind that are counted: a person needs to know that there are some, not how many thousand."""
INSPECTION_OUTPUT_BYTES = 64 << 20
"""One answer of git: the names of 200,000 files with their ids are some 30 MB."""
INSPECTION_RULES_BYTES = 1 << 20
"""A configuration, or a file of rules (``.gitignore``, ``.gitattributes``): git reads them whole into memory."""
INSPECTION_LOCK_S = 86_400.0
"""A file that ends in ``.lock`` is taken for a lock that somebody holds while it is younger than a day."""
INSPECTION_LOCK_BYTES = 64
"""A lock holds nothing or a process number; lists of dependencies that have the same ending are larger."""
EXPORT_ENTRIES = 400_000
EXPORT_BYTES = 200 << 30
EXPORT_DEPTH = 128
"""Bounds of an exported tree (WS-13). A work tree with the dependencies of several programs has some hundred thousand names, at some 1,200
bytes of memory each; holes count as bytes, since whoever checks an export reads them; each level costs two descriptors."""
EXPORT_PATH_BYTES = 4000
"""Longest path in an export: plain programs such as ``sha256sum`` open no path of 4,096 bytes."""
EXPORT_ATTRIBUTE_BYTES = 64 << 10
"""Extended attributes of one file, names and values: what ext4 holds by far, and the kernel's own bound of a value."""
EXPORT_TEXT_BYTES = 256 << 20
"""Paths, link targets and attributes of a whole tree: they are in memory at once."""
EXPORT_LINE_BYTES = 1 << 20
"""Longest line of an export's list of entries: the longest path and target and all attributes, each byte escaped."""
EXPORT_LIST_BYTES = 2 << 30
"""Largest list of entries, or of sums, that is taken in from elsewhere: 800,000 lines with paths of some 2,000 bytes."""
EXPORT_MANIFEST_BYTES = 16 << 20
"""Largest manifest: as many sessions as a checkpoint in an export can have, and some lists of names."""
EXPORT_LISTED = 100
"""Names that a manifest or a refusal lists; all are in the list of entries."""
EXPORT_CHANGED = 20
"""Names that are given of what changed under an export: a person needs to see where it was, not all of it."""
