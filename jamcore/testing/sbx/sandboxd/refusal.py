"""How the daemon says no."""

from __future__ import annotations

from jamcore.testing.sbx.behaviours import Gates


class RefusedError(Exception):
    """A request was refused: what is printed, and which command is proposed."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.hint = hint


def no_sandbox(gates: Gates, name: str) -> RefusedError:
    """Return what an unknown sandbox is (``missing.older``, ``missing.newer``)."""
    if gates("missing.newer"):
        return RefusedError(f"sandbox '{name}' not found", "sbx ls")
    return RefusedError(f"no sandbox named '{name}'\n\nTo create one:\n  sbx create AGENT WORKSPACE")
