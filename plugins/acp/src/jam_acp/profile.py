"""A profile: all that Jam has to know of one agent of the Agent Client Protocol. It is data; no agent has code of its own here.

The built-in ones lie in :mod:`jam_acp.profiles`; any other is a table of the configuration file (:func:`profile_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from pydantic import Field, JsonValue, ValidationError, ValidationInfo, field_validator, model_validator

from jam_acp.places import NAMES, unknown_place
from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    FULL_CELLS,
    ActivationPlan,
    CaptureList,
    Cell,
    CredentialSpec,
    InvalidInputError,
    PreparedFile,
    Record,
    ToolchainSpec,
)

GUARD = "\u200b"
"""Begins what is sent of a text that begins with a slash: most agents would take it for a command of theirs, and some drop it without a
word when they know none of that name. It has no width, and no agent trims it."""

CELLS: Mapping[str, frozenset[Cell]] = MappingProxyType({"full": FULL_CELLS, "dedicated-managed": DEDICATED_MANAGED_CELLS})

ChangeKey = Literal["path", "old", "new", "patch", "nothing"]

_PLACES = re.compile(r"\{(cwd|model)\}")


class Resume(StrEnum):
    """How an agent brings a session back: by ``session/load``, which tells it again, or not at all.

    After the protocol's ``session/resume`` nobody could tell the old session from a blank one of its name, so it is never asked for.
    """

    LOAD = "load"
    NONE = "none"


class Authentication(StrEnum):
    """Whether ``authenticate`` is called: never, or only after the agent refused a session with -32000.

    An agent that gets its key in another way is never asked to authenticate: some would open a browser and wait for it.
    """

    NEVER = "never"
    WHEN_REFUSED = "when-refused"


class Extension(Record):
    """A request of the agent's own that is not of the protocol, and Jam's polite answer to it. ``told``: whether a person sees it."""

    method: str = Field(min_length=1, max_length=128)
    answer: JsonValue
    told: bool = True


class UnknownSession(Record):
    """One form of "I do not know this session": the code of the error, and what else must be so, since the code alone says too little.

    ``data`` are members of the error's data and their texts; ``words`` stand in its message or in the details of its data.
    """

    code: int
    data: tuple[tuple[str, str], ...] = ()
    words: str = ""

    @field_validator("data", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        return _as_pairs(value)


class Profile(Record):
    """One agent.

    In ``argv``, ``version_argv``, ``move``, ``environment`` and the contents of ``prepared``, ``{tools_root}``, ``{state_root}``,
    ``{home}`` and ``{relay_url}`` stand for the guest's places; ``{cwd}`` and ``{model}`` for what the session asks for, in ``argv`` and
    ``environment``; ``{cwd}`` also in ``move``, and ``{model}`` alone in ``model_value``. In a value that is JSON they are written as
    JSON writes text.

    Attributes:
        name: The provider's name.
        title: What people read.
        argv: The agent's command line in the guest.
        version_argv: A command that prints the version; empty: the agent says it itself.
        environment: What the agent's process gets beside the sandbox's own.
        toolchain: The pinned program; absent: it is in the sandbox's image.
        agent_image: The image of engines that have images.
        cells: ``full`` or ``dedicated-managed``.
        seats: Sessions on one Shared host, each with a process of its own.
        credential, default_origin, endpoint_paths: The model endpoint, as in every plugin.
        prepared, state_subdirectories, guest_directories: What lies in place before the agent starts.
        capture, activation: The state that makes a conversation; without ``capture`` there is no continuity.
        resume: How a session is brought back.
        kept_at_once: A session is on disk when ``session/new`` is answered: then a turn counts as started when it is sent, else with
            the first sign that the agent works on it.
        keeps_cwd: It goes on in the directory in which a session was begun, whatever is asked when it is loaded: then a session whose
            directory is another one now is refused, unless it can be moved.
        move: A command that writes into an agent's state that the session ``{identity}`` is in ``{cwd}`` now. It runs where a session comes
            back in another directory, while no process of the agent runs for it; then the session must be there. Neither text has a
            quote or a backslash in it.
        authentication, auth_method: Whether and how ``authenticate`` is called.
        mode: The mode that each session is put into, also when it comes back; empty: the agent's own.
        model_value: How the agent calls the model that a person chose.
        default_model: The model where a person chose none; empty: the agent's own.
        approvals: Whether the agent asks before it acts.
        command_key: The member of a call's input that is its command.
        harmless: Further members of a command's input that change nothing about what is done. A command with any other beside these, its
            command and ``cwd`` is shown whole, and no rule of a person covers it.
        change_keys: The members of a change's input, and what of the change each says again: ``path``, ``old`` or ``new`` (its text, or the
            part of it that is replaced), ``patch`` (a unified diff), or ``nothing``. A change with any other, or one of which a member
            says something else than its diff, is shown whole, and no rule covers it.
        extensions: Requests of its own, with their answers.
        unknown_session: How it says that it does not know a session.
        versions: Which version may resume what another wrote: the same alone, or a later patch of the same release too.
        resumes: Older versions of which the pinned one was seen to resume sessions exactly.
        guard: Whether :data:`GUARD` is put before a text that begins with a slash. What it is cannot be chosen: a text that is told again
            must be known without it, and a person may have written anything else themselves.
    """

    name: str
    title: str
    argv: tuple[str, ...] = Field(min_length=1)
    version_argv: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    toolchain: ToolchainSpec | None = None
    agent_image: str = "shell"
    cells: Literal["full", "dedicated-managed"] = "dedicated-managed"
    seats: int = Field(8, ge=1, le=64)
    credential: CredentialSpec | None = None
    default_origin: str | None = None
    endpoint_paths: tuple[str, ...] = ()
    prepared: tuple[PreparedFile, ...] = ()
    state_subdirectories: tuple[str, ...] = ()
    guest_directories: tuple[str, ...] = ()
    capture: CaptureList | None = None
    activation: ActivationPlan = ActivationPlan()
    resume: Resume = Resume.NONE
    kept_at_once: bool = False
    keeps_cwd: bool = False
    move: tuple[str, ...] = ()
    authentication: Authentication = Authentication.NEVER
    auth_method: str = ""
    mode: str = ""
    model_value: str = "{model}"
    default_model: str = ""
    approvals: bool = True
    command_key: str = "command"
    harmless: tuple[str, ...] = ("description",)
    change_keys: tuple[tuple[str, ChangeKey], ...] = ()
    extensions: tuple[Extension, ...] = ()
    unknown_session: tuple[UnknownSession, ...] = (UnknownSession(code=-32002),)
    versions: Literal["same", "patch"] = "same"
    resumes: tuple[str, ...] = ()
    guard: bool = True

    @field_validator("environment", "change_keys", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        return _as_pairs(value)

    @field_validator(*NAMES)
    @classmethod
    def _known_places(cls, value: _Texts, info: ValidationInfo) -> _Texts:
        key = info.field_name or ""
        for text in (value,) if isinstance(value, str) else value:
            written = text if isinstance(text, str) else text.content if isinstance(text, PreparedFile) else text[1]
            if unknown := unknown_place(key, written):
                raise ValueError(f"{unknown} stands for no place here; there are {', '.join(f'{{{name}}}' for name in NAMES[key])}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Profile:
        if (self.capture is None) != (self.resume is Resume.NONE):
            raise ValueError(
                "capture and resume belong together: what is captured must be able to come back, and the other way round"
            )
        if self.authentication is Authentication.WHEN_REFUSED and not self.auth_method:
            raise ValueError("auth_method is missing: which method is called when the agent refuses a session")
        if self.move and not self.keeps_cwd:
            raise ValueError("move is for an agent that keeps a session's directory: keeps_cwd is missing")
        return self

    @property
    def continuity(self) -> bool:
        """Whether its sessions come back."""
        return self.capture is not None

    @property
    def starts_for_thread(self) -> bool:
        """Whether the process is started for one session: its command line or environment name the session's directory or model."""
        return any(_PLACES.search(text) for text in (*self.argv, *(value for _, value in self.environment)))

    @property
    def knows_model(self) -> bool:
        """Whether the process is told the model when it starts."""
        return any("{model}" in text for text in (*self.argv, *(value for _, value in self.environment)))

    def extension(self, method: str) -> Extension | None:
        """Return what is answered to a request of the agent's own."""
        return next((extension for extension in self.extensions if extension.method == method), None)


_Texts = str | tuple[str | tuple[str, str] | PreparedFile, ...]


def profile_of(name: str, table: Mapping[str, object]) -> Profile:
    """Read a profile from a table of a configuration file.

    Raises:
        InvalidInputError: Something in it is unknown, missing or wrong; its field says which key.
    """
    if "name" in table:
        raise InvalidInputError(field="name", problem="the table's own name is the provider's")
    try:
        text = json.dumps({"title": name, **table, "name": name})
    except (TypeError, ValueError) as error:
        raise InvalidInputError(field="(the whole table)", problem=f"it cannot be written as JSON: {error}") from None
    try:
        return Profile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "(the whole table)"
        raise InvalidInputError(field=field, problem=first["msg"].removeprefix("Value error, ")) from None


def _as_pairs(value: object) -> object:
    """Take a table for pairs: that is how people write one."""
    return tuple(value.items()) if isinstance(value, dict) else value
