"""What a kit is, as far as it is simulated: a directory with a spec.yaml."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jamcore.testing.sbx import yaml

ALLOWED = ("docker.io/",)


class KitError(Exception):
    """A kit cannot be used; the text is what the program says."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit: its name, kind, the hosts that it allows, and its variables."""

    name: str
    kind: str
    allow: tuple[str, ...]
    environment: Mapping[str, str]
    spec: Mapping[str, Any]


def resolve(reference: str, settings: Mapping[str, Any]) -> Kit | None:
    """Return a local kit; ``None`` for one that would have to be pulled from an allowed source.

    Raises:
        KitError: It is not allowed, or is none.
    """
    if Path(reference).exists():
        if not settings.get("kit.allowLocalKits", True):
            raise KitError(
                f'resolve kits: kit "{reference}": local kit sources are disabled (kit.allowLocalKits=false)',
                "sbx settings set kit.allowLocalKits true",
            )
        return read(Path(reference))
    allowed = settings.get("kit.allowedSources", list(ALLOWED))
    if not any(reference.startswith(source) for source in allowed):
        raise KitError(
            f'resolve kits: kit "{reference}" cannot be installed — its source is not in your allowlist.\n'
            "To allow this kit's publisher and install it, run:\n"
            f"  sbx settings set kit.allowedSources '{json.dumps([*allowed, reference.partition('/')[0] + '/'])}'\n"
            "Then re-run your original command."
        )
    return None


def read(directory: Path) -> Kit:
    """Read a kit.

    Raises:
        KitError: It is none.
    """
    try:
        spec = yaml.load((directory / "spec.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YamlError) as error:
        raise KitError(f'resolve kits: kit "{directory}": artifact: invalid spec.yaml: {error}') from error
    if (
        not isinstance(spec, dict)
        or not {"schemaVersion", "kind", "name"} <= spec.keys()
        or spec["kind"] not in ("mixin", "sandbox", "workload")
    ):
        raise KitError(f'resolve kits: kit "{directory}": artifact: invalid spec.yaml: schemaVersion, kind and name are required')
    network = (spec.get("permissions") or {}).get("network") or {}
    variables = (spec.get("environment") or {}).get("variables") or {}
    named = {str(key): str(value) for key, value in variables.items()}
    return Kit(str(spec["name"]), str(spec["kind"]), tuple(network.get("allow") or ()), named, spec)
