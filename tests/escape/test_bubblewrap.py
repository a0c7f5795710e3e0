"""What this engine claims beside the battery that every engine is put to (jamcore.testing.engines.battery)."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import Access, HostMount, Resources, SandboxSpec, TerminalSize
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.machine import look
from jamcore.system.files import Files
from jamcore.testing.engines.box import WORK, Box, Python, finish, opened

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.unprivileged, pytest.mark.guarantee("ENG-5")]

_MACHINE = look()
PYTHON = Python(
    argv=(_MACHINE.python if _MACHINE else "python3",),
    environment=(("LD_LIBRARY_PATH", _MACHINE.library_path),) if _MACHINE and _MACHINE.library_path else (),
)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    """A sandbox with a mount of its own and few processes."""
    work = Files().make_private(tmp_path / "work")
    disk = Files().make_private(tmp_path / "disk")
    mount = HostMount(host_path=str(work), guest_path=WORK, access=Access.READ_WRITE)
    spec = SandboxSpec(name="jam-escape", guest_disk=str(disk), mounts=(mount,), resources=Resources(processes=200))
    async with opened(BubblewrapEnginePlugin, tmp_path) as engine:
        await engine.create(spec)
        yield Box(engine=engine, spec=spec, work=work, python=PYTHON)


@pytest.mark.guarantee("SEC-1")
async def test_no_file_of_the_guest_is_roots_or_set_id_on_the_host(box: Box) -> None:
    """Whatever it makes in its mount and its home, by its own tools too."""
    make = f"cd {WORK}; touch a; mkdir d; cp /usr/bin/true t; chmod 7777 t d; chmod u+s t; ln -s /etc/passwd l; mkfifo p"
    await box.run("sh", "-c", f"{make}; cp -r {WORK}/d ~/d2")
    made = [*box.work.rglob("*"), *(Path(box.spec.guest_disk) / "home").rglob("*")]
    assert {"a", "d", "t", "l", "p", "d2"} <= {path.name for path in made}
    for path in made:
        found = path.lstat()
        assert not stat.S_IMODE(found.st_mode) & 0o6000, path
        assert found.st_uid != 0, path
        assert os.geteuid() == 0 or found.st_uid == os.geteuid()


@pytest.mark.guarantee("SEC-5")
async def test_process_one_and_adopters_cannot_be_looked_into(box: Box) -> None:
    """Not traced, no memory, no descriptors, no environment; and killing process 1 from inside does nothing."""
    code = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
own = os.fork()
if own == 0: signal.pause()
print("own", libc.ptrace(16, own, 0, 0)); os.kill(own, signal.SIGKILL)
for pid in (1, os.getppid()):
    print("trace", libc.ptrace(16, pid, 0, 0))
    for name in ("mem", "environ", "maps", "fd/0"):
        try: os.open(f"/proc/{pid}/{name}", os.O_RDONLY); print("OPENED", pid, name)
        except OSError: pass
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
"""
    ran = await box.code(code)
    assert ran.text.split() == ["own", "0", "trace", "-1", "trace", "-1"], (ran.text, ran.err)
    assert (await box.run("echo", "on")).text == "on"


async def test_privileges_are_gone_and_cannot_come_back(box: Box) -> None:
    """No capability is held or in reach, no program on the path can give one, and the filter is on."""
    ran = await box.run("grep", "-E", "^(Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs|Seccomp):", "/proc/self/status")
    fields = dict(line.split(":\t") for line in ran.text.splitlines())
    assert {fields.pop(name) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
    assert fields == {"NoNewPrivs": "1", "Seccomp": "2"}
    assert (await box.run("id", "-u")).text == "1000"


@pytest.mark.guarantee("SEC-4")
async def test_only_a_loopback_of_its_own_and_no_socket_is_there(box: Box) -> None:
    """No interface but lo, no route, no socket file of the host anywhere in sight."""
    devices = (await box.run("cat", "/proc/net/dev")).text.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    assert (await box.run("cat", "/proc/net/route")).text.count("\n") == 0
    assert (await box.run("find", "/", "-xdev", "-type", "s")).text == ""
    assert (await box.run("find", "/tmp", "/run", "/dev/shm", "/home", "/jam/work", "-type", "s")).text == ""
    code = (
        "import socket\nfor f in (16, 17, 38, 40):\n  try: socket.socket(f, 3 if f == 17 else 2); print(f)\n  except OSError: pass"
    )
    assert (await box.code(code)).text in {"", "16"}


async def test_the_system_is_read_only_and_the_private_parts_are_bounded(box: Box) -> None:
    """Nothing of the system can be written; /tmp, /dev/shm and /run end somewhere."""
    for place in ("/", "/usr", "/etc", "/etc/passwd", "/jam", "/jam/init", "/home", "/usr/bin/true", "/proc/sys/kernel/hostname"):
        assert (await box.run("sh", "-c", f"test -w {place}")).status.code == 1, place
    code = """
import os
for place in ("/tmp", "/dev/shm", "/run"):
    found = os.statvfs(place); size = found.f_blocks * found.f_frsize
    try:
        descriptor = os.open(f"{place}/x", os.O_CREAT | os.O_RDWR); os.posix_fallocate(descriptor, 0, size + (1 << 20)); print("FILLED")
    except OSError as error: print(place, size, error.errno)
"""
    lines = [line.split() for line in (await box.code(code)).text.splitlines()]
    assert [(place, int(size)) for place, size, _ in lines][:2] == [("/tmp", 1 << 30), ("/dev/shm", 256 << 20)]
    assert {error for _, _, error in lines} <= {"28", "13"}


async def test_a_fork_bomb_stops_at_the_bound_and_can_be_ended(box: Box) -> None:
    """The bound is the plan's; the tree is ended all the same, and the sandbox is usable after it."""
    code = """
import os, sys
os.write(1, b"go")
while True:
    try: os.fork()
    except OSError: pass
"""
    async with box.script(code) as process:
        assert await process.stdout.receive() == b"go"
        await anyio.sleep(0.3)
        with anyio.fail_after(30):
            await process.kill_tree()
    assert (await box.run("echo", "on")).text == "on"
    count = "import os\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\n    n += 1\nexcept OSError: print(n)"
    assert 50 < int((await box.code(count)).text) < 200


async def test_nobody_types_into_a_terminal(box: Box) -> None:
    """TIOCSTI on its own terminal is refused by the filter, whatever the kernel's setting."""
    code = "import fcntl\ntry: fcntl.ioctl(0, 0x5412, b'x'); print('typed')\nexcept OSError as error: print(error.errno)"
    async with box.script(code, terminal=TerminalSize(rows=10, columns=10)) as process:
        assert (await finish(process)).text == "1"


async def test_what_mountinfo_tells_is_only_where_mounts_come_from(box: Box) -> None:
    """Unavoidable and documented: the sources of the sandbox's own mounts. Nothing else of the host is named."""
    lines = (await box.run("cat", "/proc/self/mountinfo")).text.splitlines()
    targets = {line.split()[4] for line in lines}
    assert {"/", "/proc", "/tmp", "/home/agent", WORK} <= targets
    assert not {target for target in targets if target.startswith(("/root", "/var", "/sys", "/mnt", "/opt", "/srv"))}
    assert "/oldroot" not in " ".join(targets)
