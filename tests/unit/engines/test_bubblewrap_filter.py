"""The system call filter, run by a small interpreter of its own instructions: no kernel is needed to read it."""

from __future__ import annotations

import errno
import struct

import pytest

from jamcore.domain.sandboxes import EngineUnavailableError
from jamcore.engines.bubblewrap import seccomp

pytestmark = pytest.mark.guarantee("SEC-1")

EPERM, ENOSYS, NO_FAMILY = (seccomp.ERRNO | number for number in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
O_CREAT, O_TMPFILE = 0o100, 0o20200000


def answer(machine: seccomp.Machine, number: int, *arguments: int, audit: int | None = None) -> int:
    """Run the filter over one call."""
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, machine.audit if audit is None else audit, 0, *(value & (1 << 64) - 1 for value in padded))
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    register = position = 0
    while True:
        kind, yes, no, value = code[position]
        position += 1
        if kind == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif kind == 0x06:
            return int(value)
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[kind]
            position += yes if holds else no


@pytest.fixture(params=sorted(seccomp.MACHINES))
def machine(request: pytest.FixtureRequest) -> seccomp.Machine:
    return seccomp.MACHINES[request.param]


def number_of(machine: seccomp.Machine, name: str) -> int | None:
    return {**machine.calls, **seccomp._COMMON}.get(name)


def test_what_is_not_named_is_allowed(machine: seccomp.Machine) -> None:
    """Ordinary programs never meet the filter."""
    named = {*machine.calls.values(), *seccomp._COMMON.values()}
    assert all(answer(machine, number) == seccomp.ALLOW for number in range(460) if number not in named)


def test_every_named_call_is_refused(machine: seccomp.Machine) -> None:
    """Each with the error that its callers understand."""
    refused = {name: number_of(machine, name) for name in seccomp.REFUSED}
    assert {name for name, number in refused.items() if number is not None and answer(machine, number) != EPERM} == set()
    assert {answer(machine, seccomp._COMMON[name]) for name in seccomp.MISSING} == {ENOSYS}


def test_no_mode_carries_a_set_id_bit(machine: seccomp.Machine) -> None:
    """Neither when a file is made nor afterwards; all other modes pass."""
    for name, position in seccomp.MODE_ARGUMENT.items():
        if (number := number_of(machine, name)) is not None:
            for mode, expected in (
                (0o4755, EPERM),
                (0o2755, EPERM),
                (0o6000, EPERM),
                (0o1777, seccomp.ALLOW),
                (0o777, seccomp.ALLOW),
            ):
                assert answer(machine, number, *(0,) * position, mode) == expected, (name, oct(mode))


@pytest.mark.parametrize(
    ("flags", "mode", "refused"),
    [(O_CREAT, 0o4755, True), (O_TMPFILE, 0o2755, True), (O_CREAT, 0o644, False), (0, 0o4755, False), (O_TMPFILE, 0o600, False)],
)
def test_open_is_judged_by_its_mode_only_when_it_makes_a_file(
    machine: seccomp.Machine, flags: int, mode: int, refused: bool
) -> None:
    """Without those flags the mode is whatever lay in the register."""
    for name, (flags_at, _) in seccomp.OPEN_ARGUMENTS.items():
        if (number := number_of(machine, name)) is not None:
            found = answer(machine, number, *(0,) * flags_at, flags, mode)
            assert found == (EPERM if refused else seccomp.ALLOW), name


def test_sockets_are_of_families_that_the_namespace_holds(machine: seccomp.Machine) -> None:
    """AF_VSOCK (40) would reach the host or the hypervisor; the kernel's crypto (38) and packets (17) are no guest's business."""
    for name in ("socket", "socketpair"):
        number = machine.calls[name]
        allowed = [family for family in range(46) if answer(machine, number, family) == seccomp.ALLOW]
        assert allowed == [1, 2, 10, 16]
        assert answer(machine, number, 40) == NO_FAMILY


def test_clone_makes_processes_and_threads_and_no_namespace(machine: seccomp.Machine) -> None:
    """Flags of fork, vfork and pthread_create pass; each namespace flag is refused."""
    number = machine.calls["clone"]
    for flags in (17, 0x4111, 0x3D0F00):
        assert answer(machine, number, flags) == seccomp.ALLOW
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, number, bit | 17) == EPERM


def test_no_typing_into_a_terminal(machine: seccomp.Machine) -> None:
    """TIOCSTI and TIOCLINUX are refused, also with a dirty upper half; other requests pass."""
    number = machine.calls["ioctl"]
    for request in (seccomp.TIOCSTI, seccomp.TIOCLINUX, seccomp.TIOCSTI | 1 << 40):
        assert answer(machine, number, 0, request) == EPERM
    assert answer(machine, number, 0, 0x5413) == seccomp.ALLOW


def test_foreign_architectures_end_the_process(machine: seccomp.Machine) -> None:
    """Their call numbers mean other calls. x32 shares an architecture with x86_64 and is told by a bit."""
    assert answer(machine, 0, audit=0x40000003) == seccomp.KILL
    if machine.x32_bit is not None:
        assert answer(machine, machine.x32_bit | 1) == seccomp.KILL


def test_an_unknown_architecture_is_refused_by_type() -> None:
    """A sandbox without the filter is not offered."""
    with pytest.raises(EngineUnavailableError, match="riscv64"):
        seccomp.machine("riscv64")
