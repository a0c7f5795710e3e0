"""Makes examples/ anew from the skeletons: ``python -m jamcore.testing.skeleton.examples``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from jamcore.testing.skeleton.making import Kind, files_of
from jamcore.testing.sources import workspace_root

EXAMPLES: Mapping[Kind, str] = MappingProxyType(
    {Kind.PROVIDER: "example_agent", Kind.ENGINE: "example_engine", Kind.POLICY: "example_policy"}
)
"""The plugin that is kept of each kind."""


def directory(root: Path, kind: Kind) -> Path:
    """Return where an example lies."""
    return root / "examples" / kind.value


def main() -> int:
    """Write them."""
    root = workspace_root(Path.cwd())
    for kind, name in EXAMPLES.items():
        shutil.rmtree(directory(root, kind), ignore_errors=True)
        for relative, content in files_of(kind, name):
            path = directory(root, kind) / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
