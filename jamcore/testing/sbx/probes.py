"""Puts the behaviours that can be checked to two programs, one of them real, and says in what they differ.

What is asked disturbs nothing of a person's: one sandbox of its own, in directories of its own, is made, used and removed; rules and
names are that sandbox's; nothing is signed out, restarted or reset. The person is signed in and has a policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from jamcore.testing.sbx.asking import Program
from jamcore.testing.sbx.behaviours import everything
from jamcore.testing.sbx.known import up_to

LIMIT_S = 600.0
"""The first sandbox of a machine has an image to get."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a probe may name: ``{name}``, ``{ws}`` and ``{ref}``."""

    name: str
    ws: Path
    ref: Path

    def fill(self, word: str) -> str:
        """Put names and paths into a word."""
        return word.replace("{name}", self.name).replace("{ws}", str(self.ws)).replace("{ref}", str(self.ref))

    def plain(self, text: str) -> str:
        """Take out of a text what differs between two runs."""
        for found, word in ((str(self.ws), "{ws}"), (str(self.ref), "{ref}"), (self.name, "{name}")):
            text = text.replace(found, word)
        text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
        text = re.sub(r"\b[0-9a-f]{40}\b", "SHA", re.sub(r"v0\.\d+\.\d+", "VERSION", text))
        return "\n".join(re.sub(r" +", " ", line).strip() for line in text.strip().splitlines())


Look = Callable[[CompletedProcess[bytes], Place], object]


@dataclass(frozen=True, slots=True)
class Probe:
    """One command, for which behaviours it is, and what of its outcome is compared."""

    behaviours: tuple[str, ...]
    words: tuple[str, ...]
    look: Look
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a real program does otherwise."""

    behaviours: tuple[str, ...]
    words: tuple[str, ...]
    real: object
    simulated: object

    def __str__(self) -> str:
        asked = " ".join(("sbx", *self.words))
        return f"{', '.join(self.behaviours)}: {asked}\n  real:      {self.real!r}\n  simulated: {self.simulated!r}"


# ---------------------------------------------------------------------------------------------------- what is compared


def failure(done: CompletedProcess[bytes], place: Place) -> object:
    """Compare the exit code and what is said on stderr."""
    return done.returncode, done.stderr.decode(errors="replace")


def whole(done: CompletedProcess[bytes], place: Place) -> object:
    """Compare the exit code and both streams."""
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def head(done: CompletedProcess[bytes], place: Place) -> object:
    """Compare the first line of stdout."""
    return done.stdout.decode(errors="replace").partition("\n")[0]


def code(done: CompletedProcess[bytes], place: Place) -> object:
    """Compare the exit code."""
    return done.returncode


def mentions(*words: str) -> Look:
    """Compare which of some words stand in the output."""
    return lambda done, _: [word for word in words if re.search(rf"{re.escape(word)}\b", done.stdout.decode(errors="replace"))]


def keys(*path: str) -> Look:
    """Compare the keys of one part of the document; of a list, of the one that has the right name or scope."""

    def look(done: CompletedProcess[bytes], place: Place) -> object:
        value = json_of(done)
        for key in map(place.fill, path):
            if isinstance(value, list):
                value = next((each for each in value if key in (each.get("name"), each.get("scope"))), {})
            else:
                value = value.get(key, {}) if isinstance(value, dict) else {}
        return Keys(frozenset(value)) if isinstance(value, dict) else type(value).__name__

    return look


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a document; the real one may have more."""

    names: frozenset[str]


def json_of(done: CompletedProcess[bytes]) -> Any:  # noqa: ANN401 - any document
    """Return the one document of an output, with lines before and a box after it; nothing where there is none."""
    text = done.stdout.decode(errors="replace")
    for line in re.finditer(r"^[\[{]", text, re.MULTILINE):
        try:
            return json.JSONDecoder().raw_decode(text, line.start())[0]
        except ValueError:
            continue
    return {}


def variables(*names: str) -> Look:
    """Compare some variables of an environment that was printed."""

    def look(done: CompletedProcess[bytes], place: Place) -> object:
        found = dict(line.partition("=")[::2] for line in done.stdout.decode(errors="replace").splitlines())
        return [f"{name}={found[name]}" for name in names if name in found]

    return look


# ---------------------------------------------------------------------------------------------------- the probes


def _probe(behaviours: str, words: str, look: Look, *, script: str = "", stdin: bytes = b"") -> Probe:
    return Probe(tuple(behaviours.split()), (*words.split(), *((script,) if script else ())), look, stdin)


_CREATE_FLAGS = mentions("--env", "--deny-network", "--publish", "--static-mcp", "--skills", "--kit-arg")
_ENV = variables("HOME", "SANDBOX_NAME", "SANDBOX_VM_ID", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_FLAGS = "create.env create.deny-network create.publish create.static-mcp create.skills create.kit-arg"
BEFORE = (
    _probe("exit.zero-or-one errors.lower-case errors.one-prefix cobra.unknown-flag", "--version", failure),
    _probe("cobra.count", "ports", failure),
    _probe("cobra.unknown-command", "nonsense", failure),
    _probe("version.line", "version", whole),
    _probe("version.json", "version --json", keys()),
    _probe("version.json", "version --json", keys("client")),
    _probe("diagnose.json", "diagnose --json", keys()),
    _probe("diagnose.json", "diagnose --json", keys("checks", "Daemon")),
    _probe("daemon.status", "daemon status --json", keys()),
    _probe(_FLAGS, "create --help", _CREATE_FLAGS),
    _probe("mcp.group", "mcp --help", code),
    _probe("env.group", "env --help", code),
    _probe("create.branch", "create --branch x shell {ws}", failure),
    _probe("create.name-regexp", "create --name a_b shell {ws}", failure),
    _probe("create.name-plus", "create --name a+b shell {ws}", failure),
    _probe("create.name-strict create.name-strict-words", "create --name {name}- shell {ws}", failure),
    _probe("create.name-reserved", "create --name default shell {ws}", failure),
    _probe("create.unknown-agent", "create --name {name} nonsense {ws}", failure),
    _probe("create.first-writable-words", "create --name {name} shell {ws}:ro", failure),
    _probe("create.path-missing", "create --name {name} shell {ws}/nonsense", failure),
    _probe("clone.git-needed", "create --name {name} --clone shell {ws}", failure),
    _probe("missing.newer", "exec {name} true", failure),
    _probe("missing.policy-ls", "policy ls {name}", code),
    _probe("rm.missing", "rm --force {name}", failure),
    _probe("settings.get-json", "settings get --json kit.allowLocalKits", keys()),
    _probe("settings.unknown", "settings get nonsense", failure),
    _probe("secret.json", "secret ls --json", keys()),
)
"""Before there is a sandbox: what is refused. One that makes a sandbox all the same is removed at once."""
DURING = (
    _probe("create.exists-named", "create --name {name} shell {ws}", failure),
    _probe("ls.sandbox-column", "ls", head),
    _probe("ls.id ls.last-used ls.created ls.limits", "ls --json", keys("sandboxes", "{name}")),
    _probe("guest.user", "exec {name} sh -c", whole, script="id -un; id -u; id -g; echo $HOME"),
    _probe("guest.env guest.env-id guest.env-lower net.gateway", "exec {name} env", _ENV),
    _probe("guest.env-id", "exec {name} sh -c", whole, script="test -n $SANDBOX_ID && echo set"),
    _probe("exec.cwd", "exec {name} pwd", whole),
    _probe("exec.flags-first exec.no-shell", "exec {name} echo $HOME --json", whole),
    _probe("exec.dashes", "exec {name} -- echo a", whole),
    _probe("exec.code", "exec {name} sh -c", code, script="exit 42"),
    _probe("exec.code", "exec {name} sh -c", code, script="kill -TERM $$"),
    _probe("exec.absent", "exec {name} nonsense", code),
    _probe("exec.streams exec.stdin", "exec {name} sh -c", whole, script="cat; echo e >&2; exit 3", stdin=b"\x00\xff\n"),
    _probe("exec.tty-none", "exec -t {name} sh -c", code, script="echo x; exit 5"),
    _probe("exec.detach exec.detach-words", "exec -d {name} true", failure),
    _probe("exec.left", "exec {name} sh -c", whole, script="sleep 20 >/dev/null 2>&1 & echo x"),
    _probe("exec.env", "exec -e A=b {name} sh -c", whole, script="echo $A"),
    _probe("ports.json", "ports {name} --json", lambda done, _: json_of(done)),
    _probe("policy.added policy.bare", "policy allow network --sandbox {name} example.com", whole),
    _probe("policy.json", "policy ls {name} --json", keys("rules", "sandbox:{name}")),
    _probe("policy.table", "policy ls", head),
    _probe("policy.check", "policy check network --sandbox {name} nonsense.invalid", whole),
    _probe("policy.check-json", "policy check network --sandbox {name} --json nonsense.invalid", keys()),
    _probe("guest.home-stays", "exec {name} sh -c", code, script="echo kept >/home/agent/note"),
    _probe("stop.restart-hint", "stop {name}", whole),
    _probe("exec.starts guest.home-stays", "exec {name} cat /home/agent/note", whole),
    _probe("rm.asks", "rm {name}", failure),
    _probe("rm.deleting rm.text", "rm --force {name}", whole),
)
"""While there is one, in this order; the last removes it."""


def version_for(real: str) -> str:
    """Return the newest simulated version that is not newer than what ``sbx version`` printed.

    Raises:
        ValueError: The program is older than all, or printed no version.
    """
    found = re.search(r"v0\.(\d+)\.\d+", real)
    fitting = up_to(int(found[1])) if found else ()
    if not fitting:
        raise ValueError(f"no simulated version fits {real!r}")
    return fitting[-1]


def compare(real: Program, simulated: Program, version: str, places: tuple[Place, Place]) -> tuple[Difference, ...]:
    """Put every probe of a version to both programs, and return in what they differ. Nothing is left of it."""
    return tuple(_differences(real, simulated, version, places))


def _differences(real: Program, simulated: Program, version: str, places: tuple[Place, Place]) -> Iterator[Difference]:
    both = tuple(zip((real, simulated), places, strict=True))
    holds = {each.ident for each in everything() if each.holds(version)}
    try:
        for probe in BEFORE:
            yield from _one(probe, both, holds)
            for program, place in both:
                _remove(program, place)
        for program, place in both:
            program.said(*map(place.fill, ("create", "--name", "{name}", "shell", "{ws}", "{ref}:ro")), timeout_s=LIMIT_S)
        for probe in DURING:
            yield from _one(probe, both, holds)
    finally:
        for program, place in both:
            _remove(program, place)


def _remove(program: Program, place: Place) -> None:
    """Remove what a probe made, whether or not it should have."""
    rows: list[Mapping[str, Any]] = json_of(program.run("ls", "--json", timeout_s=LIMIT_S)).get("sandboxes") or []
    for row in rows:
        if str(row["name"]).startswith(place.name) or str(place.ws) in (row.get("workspaces") or ()):
            program.run("rm", "--force", str(row["name"]), timeout_s=LIMIT_S)


def _one(probe: Probe, both: tuple[tuple[Program, Place], ...], holds: set[str]) -> Iterator[Difference]:
    if not set(probe.behaviours) & holds:
        return
    seen = []
    for program, place in both:
        done = program.run(*map(place.fill, probe.words), stdin=probe.stdin, timeout_s=LIMIT_S)
        seen.append(_plain(probe.look(done, place), place))
    real, simulated = seen
    more = isinstance(real, Keys) and isinstance(simulated, Keys) and simulated.names <= real.names
    if real != simulated and not more:
        yield Difference(probe.behaviours, probe.words, real, simulated)


def _plain(value: object, place: Place) -> object:
    if isinstance(value, str):
        return place.plain(value)
    if isinstance(value, list | tuple):
        return [_plain(each, place) for each in value]
    return value
