"""What a plugin's answers must satisfy beyond their types: pure checks, used when it is loaded and again when a plan is built.

Each returns sentences, one a fault, so that an author sees all of them at once (CAP-6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from jamcore.domain.cells import SHARED_CELL, Ability, Cell, Placement
from jamcore.domain.continuity import CONVERSATION, ActivationPlan, CaptureList
from jamcore.domain.environment import environment_problems
from jamcore.domain.errors import JamError
from jamcore.domain.ids import plugin_name
from jamcore.domain.ownership import GUEST_MARKER
from jamcore.domain.plan import GUEST_HOME, RELAY_PORT, STATE_ROOT, TOOLS_ROOT, PlanContext, PlanContribution, guest_path
from jamcore.domain.providers import Preparation, ProviderDescription, ToolchainSpec, UnpackStep

_PARAMETER = r"[A-Za-z0-9._~-]+=[A-Za-z0-9._~-]*"
_ENDPOINT = re.compile(rf"(GET|POST|PUT|PATCH|DELETE|HEAD) (/[A-Za-z0-9._~:@!$&'()*+,;=-]+)+(\?{_PARAMETER}(&{_PARAMETER})*)?\Z")
_ORIGIN = re.compile(r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?\Z")
_HOST = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z|\[[0-9a-f:]+\]\Z")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SHA512 = re.compile(r"[0-9a-f]{128}\Z")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}\Z")
_PACKAGE = re.compile(r"(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*\Z")
"""Names of npm packages: never an option, an address, a path or another name's alias, which the client would take as well."""
_PACKAGE_VERSION = re.compile(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?\Z")
"""Three numbers: the client takes fewer for a range of versions."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNPACK_WORDS = 64
"""Arguments and variables of a step by which a program unpacks itself."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
PREPARED_FILE_BYTES = 1 << 20
"""A prepared file is configuration; state is captured, not prepared."""


def plan_context(provider: str, cell: Cell, abilities: frozenset[Ability]) -> PlanContext:
    """Return what a plugin is told when it contributes to a plan: fixed guest paths, the cell, what the engine can do (PLAN-4)."""
    return PlanContext(
        cell=cell,
        state_root=f"{STATE_ROOT}/{provider}",
        tools_root=f"{TOOLS_ROOT}/{provider}",
        home=GUEST_HOME,
        relay_url=f"http://127.0.0.1:{RELAY_PORT}",
        abilities=abilities,
    )


def relative_path(text: str) -> bool:
    """Whether ``text`` is a plain relative POSIX path: no ``..``, no empty or dot segment, at most 512 characters."""
    segments = text.split("/")
    return 0 < len(text) <= 512 and "\x00" not in text and not set(segments) & {"", ".", ".."}


def relative_glob(text: str) -> bool:
    """Whether ``text`` is a glob that stays below its root: a relative path whose segments may hold ``*``, ``?`` and ``**``."""
    return relative_path(text) and "\\" not in text


def origin_problem(origin: str, *, credential: bool) -> str | None:
    """Say what is wrong with an endpoint's origin, or return ``None``.

    Plain ``http`` is for the loopback, and elsewhere only when no credential is sent.
    """
    match = _ORIGIN.match(origin)
    if not match or int((match[3] or ":1")[1:]) not in range(1, 65536):
        return f"{origin[:80]!r} is not scheme://host[:port]"
    if match[1] == "http" and credential and match[2].lower() not in _LOOPBACK:
        return f"a credential would be sent to {origin} without encryption"
    return None


def denied_host(origin: str, denied: Iterable[str]) -> str | None:
    """Return the host of an endpoint's origin if it is one of those that are denied, or below one."""
    match = _ORIGIN.match(origin)
    host = match[2].lower().rstrip(".") if match else ""
    return host if any(host == each or host.endswith(f".{each}") for each in denied) else None


def endpoint_path_ok(pair: str) -> bool:
    """Whether ``pair`` is ``METHOD /path`` or ``METHOD /path?name=value&…``: exact, without an escape or ``..``."""
    path = pair.partition(" ")[2].partition("?")[0]
    return bool(_ENDPOINT.match(pair)) and not set(path.split("/")) & {".", ".."}


def description_problems(name: str, description: ProviderDescription) -> tuple[str, ...]:
    """Check a description of the plugin that is installed as ``name``."""
    problems = []
    if description.name != name:
        problems.append(f"describes itself as {description.name[:40]!r} but is installed as {name!r}")
    try:
        plugin_name(description.name)
    except JamError as error:
        problems.append(error.context()["problem"])
    problems += [
        f"cell {cell}: a shared cell is always {SHARED_CELL}"
        for cell in sorted(description.cells, key=str)
        if cell.placement is Placement.SHARED and cell != SHARED_CELL
    ]
    credential = description.credential
    if credential is not None:
        if not _TOKEN.match(credential.header):
            problems.append(f"credential header {credential.header[:40]!r} is not a header name")
        if not credential.prefix.isprintable() or not credential.name:
            problems.append("credential name or prefix cannot be sent")
        if fault := origin_problem(credential.origin, credential=True):
            problems.append(f"credential origin: {fault}")
    if description.default_origin is not None and (fault := origin_problem(description.default_origin, credential=False)):
        problems.append(f"default origin: {fault}")
    if description.toolchain is not None:
        problems += _toolchain_problems(description.toolchain)
    return tuple(problems)


def contribution_problems(contribution: PlanContribution, context: PlanContext) -> tuple[str, ...]:
    """Check a contribution to a plan (PLAN-5): paths stay below their roots, the environment keeps the rules, endpoints are exact."""
    problems = [
        f"state subdirectory {name[:80]!r} is no plain relative path"
        for name in contribution.state_subdirectories
        if not relative_path(name)
    ]
    problems += [
        f"guest directory {name[:80]!r} is no plain relative path"
        for name in contribution.guest_directories
        if not relative_path(name)
    ]
    problems += [
        f"endpoint {pair[:80]!r} is not an exact METHOD /path" for pair in contribution.endpoint_paths if not endpoint_path_ok(pair)
    ]
    problems += [f"denied host {host[:80]!r} is no name of a host" for host in contribution.denied_hosts if not _HOST.match(host)]
    problems += [f"environment: {fault}" for fault in environment_problems(contribution.environment)]
    for mount in contribution.extra_mounts:
        if not relative_path(mount.subdirectory):
            problems.append(f"extra mount {mount.subdirectory[:80]!r} is no plain relative path")
        problems += _mount_problems(mount.guest_path, context)
    places = [mount.guest_path for mount in contribution.extra_mounts]
    if len(set(places)) != len(places):
        problems.append("two extra mounts have one guest path")
    return tuple(problems)


def preparation_problems(preparation: Preparation) -> tuple[str, ...]:
    """Check the files that a plugin wants written below its state root."""
    problems = [
        f"prepared file {file.path[:80]!r} is no plain relative path" for file in preparation.files if not relative_path(file.path)
    ]
    problems += [
        f"prepared file {file.path[:80]!r} is larger than {PREPARED_FILE_BYTES} bytes"
        for file in preparation.files
        if len(file.content.encode(errors="surrogatepass")) > PREPARED_FILE_BYTES
    ]
    return tuple(problems)


def capture_problems(capture: CaptureList, activation: ActivationPlan) -> tuple[str, ...]:
    """Check that the declarations of continuity stay below the state root and the guest's home (CONT-3)."""
    globs = {
        "capture": tuple(entry.pattern for entry in capture.entries),
        "credential pattern": capture.credential_patterns,
        "conversation pattern": capture.conversation_patterns,
        "delete": activation.delete,
        "check": activation.check,
    }
    problems = [
        f"{kind} {text[:80]!r} is no relative glob" for kind, texts in globs.items() for text in texts if not relative_glob(text)
    ]
    problems += [
        f"guest scratch {text[:80]!r} is no plain relative path" for text in capture.guest_scratch if not relative_path(text)
    ]
    problems += [
        f"conversation pattern {text[:80]!r} names no conversation"
        for text in capture.conversation_patterns
        if CONVERSATION not in text
    ]
    if not capture.entries:
        problems.append("nothing is captured")
    return tuple(problems)


def _mount_problems(path: str, context: PlanContext) -> list[str]:
    try:
        guest_path(path)
    except JamError as error:
        return [f"extra mount: {error.context()['problem']}"]
    place = PurePosixPath(path)
    if not any(PurePosixPath(root) in place.parents for root in (GUEST_HOME, context.state_root)):
        return [f"extra mount {path!r} lies neither below the guest's home nor below the state root"]
    if place == PurePosixPath(GUEST_MARKER):
        return [f"extra mount {path!r} would hide the owner's proof"]
    return []


def _toolchain_problems(spec: ToolchainSpec) -> list[str]:
    problems = [
        f"toolchain path {path[:80]!r} is no plain relative path"
        for path in (spec.root, spec.program, *spec.executables)
        if not relative_path(path)
    ]
    problems += [f"wheel for {wheel.platform[:40]!r} has no SHA-256" for wheel in spec.wheels if not _SHA256.match(wheel.sha256)]
    if not _DISTRIBUTION.match(spec.distribution) or not _VERSION.match(spec.version):
        problems.append("toolchain distribution or version is malformed")
    if len({wheel.platform for wheel in spec.wheels}) != len(spec.wheels):
        problems.append("two wheels for one platform")
    return problems + _package_problems(spec) + ([] if spec.unpack is None else _unpack_problems(spec.unpack))


def _package_problems(spec: ToolchainSpec) -> list[str]:
    problems = []
    for package in spec.packages:
        if not _SHA512.match(package.sha512):
            problems.append(f"package for {package.platform[:40]!r} has no SHA-512")
        if not _PACKAGE.match(package.name) or len(package.name) > 214:
            problems.append(f"package name {package.name[:80]!r} is malformed")
    if spec.packages and not _PACKAGE_VERSION.match(spec.version):
        problems.append(f"a package's version is exact, as 1.2.3, and not {spec.version[:40]!r}")
    if spec.packages and spec.wheels:
        problems.append("the toolchain comes both as wheels and as packages")
    if len({package.platform for package in spec.packages}) != len(spec.packages):
        problems.append("two packages for one platform")
    return problems


def _unpack_problems(step: UnpackStep) -> list[str]:
    problems = []
    if not step.command or not relative_path(step.command[0]):
        problems.append("what unpacks the toolchain is no plain relative path")
    names = [name for name, _ in step.environment]
    if not all(map(_VARIABLE.match, names)) or len(set(names)) != len(names):
        problems.append("the environment of what unpacks the toolchain has a malformed name, or one twice")
    words = [*step.command, *(value for _, value in step.environment)]
    if len(words) > _UNPACK_WORDS or any(len(word) > 4096 or "\x00" in word for word in words):
        problems.append("what unpacks the toolchain is told too much")
    return problems
