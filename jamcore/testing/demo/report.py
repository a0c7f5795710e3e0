"""How the demo tells what it did: lines for a person, or one JSON document."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import TextIO


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step: what was done, what that proved, and how long it took in seconds."""

    name: str
    proven: str
    seconds: float


@dataclass(slots=True)
class Report:
    """Collects the steps and prints each as it happens, unless the whole is wanted as data."""

    as_json: bool
    out: TextIO = field(default_factory=lambda: sys.stdout)
    steps: list[StepResult] = field(default_factory=list)

    def begin(self, text: str) -> None:
        """Say what is being done now."""
        if not self.as_json:
            self.out.write(f"  · {text} …\n")
            self.out.flush()

    def done(self, name: str, proven: str, seconds: float) -> None:
        """Say what was proven."""
        self.steps.append(StepResult(name, proven, round(seconds, 3)))
        if not self.as_json:
            self.out.write(f"  ✔ {name}: {proven}  ({seconds:.1f} s)\n")
            self.out.flush()

    def finish(self, *, ok: bool, seconds: float, paths: dict[str, str], commands: tuple[str, ...], failure: str = "") -> None:
        """Print the end: where everything is, and what to try next."""
        if self.as_json:
            document = {
                "ok": ok,
                "seconds": round(seconds, 3),
                "failure": failure,
                "steps": [asdict(step) for step in self.steps],
                "paths": paths,
                "next": commands,
            }
            self.out.write(json.dumps(document, indent=2) + "\n")
            return
        if not ok:
            self.out.write(f"  ✘ {failure}\n")
        self.out.write("\nWhat was made:\n" + "".join(f"  {name:<16} {path}\n" for name, path in paths.items()))
        if ok:
            self.out.write("\nTry next:\n" + "".join(f"  {command}\n" for command in commands))
            self.out.write(f"\nDone in {seconds:.1f} s. Remove the directory when you have seen enough.\n")
