"""The command line of bwrap, built without looking at the machine: a pure function of what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jamcore.domain.sandboxes import Access
from jamcore.engines.bubblewrap.etc import FROM_HOST, GUEST_UID
from jamcore.system.process import RunAs

CODE_ROOT = "/jam/init"
BOOT = f"import sys; sys.path.append({CODE_ROOT!r}); from jamcore.engines.supervised.guest.init import main; main()"
PYTHON_ROOT = "/jam/python"
TMP, SHM, VAR_TMP = "/tmp", "/dev/shm", "/var/tmp"  # noqa: S108 - the guest's own, each a tmpfs
TMP_BYTES = 1 << 30
SHM_BYTES = 256 << 20
RUN_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Bind:
    """One directory of the host in the guest."""

    source: str
    guest_path: str
    access: Access


@dataclass(frozen=True, slots=True)
class HostSystem:
    """How the host's root looks: which top directories are links into /usr, and which are directories of their own."""

    links: tuple[tuple[str, str], ...]
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the command line is made of."""

    program: str
    system: HostSystem
    binds: tuple[Bind, ...]
    files: Mapping[str, int]
    seccomp: int
    control: int
    relay: int
    info: int
    ports: tuple[int, ...]
    python: str
    library_path: str | None
    processes: int
    memory_bytes: int | None = None


def arguments(launch: Launch) -> tuple[str, ...]:
    """Return bwrap's argument vector. Order matters: what is mounted later hides what is below it."""
    return (
        launch.program,
        *_isolation(),
        *("--ro-bind", "/usr", "/usr"),
        *links(launch.system),
        *_private(launch.memory_bytes),
        *(part for path, descriptor in launch.files.items() for part in ("--perms", "0444", "--file", str(descriptor), path)),
        *(part for path in FROM_HOST for part in ("--ro-bind-try", path, path)),
        *_binds(launch.binds),
        *("--remount-ro", "/"),  # its own root, which holds the files written above; mounts below it keep their own mode
        *("--info-fd", str(launch.info)),
        *("--seccomp", str(launch.seccomp)),
        *("--chdir", "/"),
        *(("--setenv", "LD_LIBRARY_PATH", launch.library_path) if launch.library_path else ()),
        *("--", launch.python, "-I", "-S", "-c", BOOT),
        *(str(launch.control), str(launch.relay), str(launch.processes), ",".join(map(str, launch.ports))),
    )


def _isolation() -> tuple[str, ...]:
    return (
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        "--uid", str(GUEST_UID), "--gid", str(GUEST_UID), "--disable-userns", "--hostname", "jam",
        "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv",
    )  # fmt: skip


def links(system: HostSystem) -> Iterable[str]:
    """Yield what makes the root look like the host's: links into /usr, or directories of their own, read-only."""
    for link, target in system.links:
        yield from ("--symlink", target, link)
    for directory in system.directories:
        yield from ("--ro-bind", directory, directory)


def _private(memory_bytes: int | None) -> tuple[str, ...]:
    """Return what is the sandbox's own. File systems in memory count as memory: full, they must leave some for the programs."""
    tmp, shm = (
        (TMP_BYTES, SHM_BYTES) if memory_bytes is None else (min(TMP_BYTES, memory_bytes // 2), min(SHM_BYTES, memory_bytes // 8))
    )
    return (
        "--proc", "/proc", "--dev", "/dev",
        "--perms", "1777", "--size", str(shm), "--tmpfs", SHM,
        "--perms", "1777", "--size", str(tmp), "--tmpfs", TMP,
        "--perms", "0755", "--size", str(RUN_BYTES), "--tmpfs", "/run",
        "--perms", "0755", "--dir", "/var", "--symlink", TMP, VAR_TMP, "--symlink", "/run", "/var/run",
        "--perms", "0755", "--dir", "/etc", "--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/jam",
    )  # fmt: skip


def _binds(binds: tuple[Bind, ...]) -> Iterable[str]:
    for bind in binds:
        yield from ("--bind" if bind.access is Access.READ_WRITE else "--ro-bind", bind.source, bind.guest_path)


STAGE = f"{TMP}/jam"
"""Where the stage shows the sandbox's directories: a place that every user can walk to."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How root starts a sandbox as an ordinary user, who could not walk to directories below root's home.

    A first bwrap, as root and with nothing but a mount namespace, shows each directory at a place that everybody can walk to; then
    ``setpriv`` gives up root for good, and the second bwrap makes the sandbox from there.
    """

    program: str
    setpriv: str
    user: RunAs
    program_root: str
    library_root: str | None

    @property
    def inner_program(self) -> str:
        """Where the second bwrap lies for the stage's user."""
        return f"{STAGE}/package/program/{self.program.rpartition('/')[2]}"

    def prefix(self, binds: tuple[Bind, ...]) -> tuple[str, ...]:
        """Return the part before the second bwrap; ``binds`` name their source and, as guest path, their place on the stage."""
        # As the wheel lays them out: the program finds its libraries from where it lies.
        libraries = ("--ro-bind", self.library_root, f"{STAGE}/{self.library_root.rpartition('/')[2]}") if self.library_root else ()
        return (
            self.program,
            *("--dev-bind", "/", "/", "--perms", "0755", "--tmpfs", TMP),
            *("--perms", "0755", "--dir", STAGE, "--perms", "0755", "--dir", f"{STAGE}/package"),
            *(part for bind in binds for part in ("--bind", bind.source, bind.guest_path)),
            *("--ro-bind", self.program_root, f"{STAGE}/package/program", *libraries),
            *("--die-with-parent", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
            *(
                "--",
                self.setpriv,
                "--reuid",
                str(self.user.uid),
                "--regid",
                str(self.user.gid),
                "--clear-groups",
                "--inh-caps=-all",
                "--",
            ),
        )


def staged(stage: Stage, launch: Launch) -> tuple[str, ...]:
    """Return the argument vector for root: the stage, then the sandbox made as the stage's user."""
    shown = tuple(replace(bind, guest_path=f"{STAGE}/{number}") for number, bind in enumerate(launch.binds))
    inner = tuple(replace(bind, source=place.guest_path) for bind, place in zip(launch.binds, shown, strict=True))
    return (*stage.prefix(shown), *arguments(replace(launch, binds=inner, program=stage.inner_program)))
