"""Secrets that only the daemon holds: found in its environment or kept in private files, given to the relay alone (ENV-3, ENV-4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from jamcore.domain import layout
from jamcore.domain.errors import InvalidInputError, NotFoundError
from jamcore.domain.providers import CredentialSpec, CredentialView
from jamcore.domain.requests import CredentialRow
from jamcore.system.blocking import in_thread
from jamcore.system.files import Files

VARIABLE_PREFIX = "JAM_CREDENTIAL_"
SECRET_LIMIT = 8192
"""Characters of one secret: keys have tens, tokens hundreds."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")


class Credentials:
    """Looks a secret up by name. Order: a kept file, ``JAM_CREDENTIAL_<NAME>``, the variables that the provider's plugin names."""

    def __init__(self, app: Path, *, files: Files, environment: Mapping[str, str]) -> None:
        self._root = app / layout.CREDENTIALS
        self._files = files
        self._environment = environment
        self._specs: dict[str, CredentialSpec] = {}

    def know(self, spec: CredentialSpec) -> None:
        """Learn of a credential that a provider needs; called once for each loaded plugin."""
        self._specs[spec.name] = spec

    def spec(self, name: str) -> CredentialSpec | None:
        """Return how a provider's credential is sent, or ``None`` for one that only a person named."""
        return self._specs.get(name)

    async def secret(self, name: str) -> str | None:
        """Return the secret for the relay, or ``None``. Nothing else may call this."""
        return (await in_thread(partial(self._lookup, name)))[0]

    async def view(self, name: str) -> CredentialView:
        """Return what may be known of a credential: whether it is there, and where it comes from."""
        secret, source = await in_thread(partial(self._lookup, name))
        return CredentialView(present=secret is not None, source=source)

    async def list(self) -> tuple[CredentialRow, ...]:
        """See :class:`~jamcore.daemon.services.CredentialService`."""
        kept = await in_thread(self._kept)
        named = {name[len(VARIABLE_PREFIX) :].lower() for name in self._environment if name.startswith(VARIABLE_PREFIX)}
        names = sorted(name for name in kept | named | set(self._specs) if _NAME.match(name))
        return tuple([await self._row(name) for name in names])

    async def set(self, name: str, value: str) -> CredentialRow:
        """Keep a secret in a private file; it wins over the environment.

        Raises:
            InvalidInputError: The name or the value cannot be one.
        """
        path = self._path(name)
        if not 1 <= len(value) <= SECRET_LIMIT or not value.isprintable() or not value.isascii() or " " in value:
            raise InvalidInputError(
                field="value", problem=f"a secret is 1 to {SECRET_LIMIT} printable ASCII characters without spaces"
            )
        await in_thread(partial(self._keep, path, value))
        return await self._row(name)

    async def forget(self, name: str) -> None:
        """Forget a kept secret; one that comes from the environment stays there.

        Raises:
            NotFoundError: None is kept under this name.
        """
        path = self._path(name)
        if not path.exists():
            raise NotFoundError(kind="kept credential", ref=name)
        await in_thread(partial(self._files.unlink, path))

    def _keep(self, path: Path, value: str) -> None:
        self._files.make_private(path.parent)
        self._files.write_atomic(path, value.encode())

    def _kept(self) -> frozenset[str]:
        return frozenset(path.name for path in self._root.iterdir()) if self._root.is_dir() else frozenset()

    async def _row(self, name: str) -> CredentialRow:
        view = await self.view(name)
        return CredentialRow(name=name, present=view.present, source=view.source)

    def _lookup(self, name: str) -> tuple[str | None, str]:
        path = self._path(name)
        if path.is_file():
            return path.read_text(encoding="ascii").strip(), "kept by Jam"
        spec = self._specs.get(name)
        for variable in (VARIABLE_PREFIX + name.upper(), *(spec.environment_names if spec else ())):
            if value := self._environment.get(variable, "").strip():
                return value, f"environment of the daemon, {variable}"
        return None, ""

    def _path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise InvalidInputError(field="credential", problem=f"{name[:40]!r} is not a lower-case identifier")
        return self._root / name
