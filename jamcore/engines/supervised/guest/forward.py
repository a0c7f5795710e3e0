"""Carries connections from the guest's loopback ports to the host. Standard library only.

For each accepted connection it asks over a socket pair that was connected before it started, and gets one end of a fresh pair back. No
path of the host is visible here, and no descriptor ever goes to the host.
"""

from __future__ import annotations

import os
import select
import socket
import threading

from jamcore.engines.supervised.guest.frames import receive

CONNECTIONS = 64
CHUNK = 1 << 16
STACK_BYTES = 256 << 10


def run(relay: socket.socket, ports: list[int]) -> None:
    """Serve until the relay's other end is gone. At most :data:`CONNECTIONS` at once; more wait in the kernel's queue."""
    room = threading.BoundedSemaphore(CONNECTIONS)
    poll = select.poll()
    listeners: dict[int, tuple[socket.socket, int]] = {}
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(CONNECTIONS)
        listener.setblocking(False)
        listeners[listener.fileno()] = (listener, port)
        poll.register(listener, select.POLLIN)
    threading.stack_size(STACK_BYTES)
    while True:
        for descriptor, _ in poll.poll():
            listener, port = listeners[descriptor]
            room.acquire()
            try:
                client, _ = listener.accept()
            except OSError:  # it went away before it was taken
                room.release()
                continue
            client.setblocking(True)
            _carry_in_thread(client, ask(relay, port), room)


def ask(relay: socket.socket, port: int) -> socket.socket:
    """Ask for a connection to the host's side of a port. An answer to a forwarder that was killed before it came is thrown away."""
    token = os.urandom(8)
    relay.send(port.to_bytes(2, "big") + token)
    while True:
        answer, descriptors = receive(relay, 16)
        if not answer or not descriptors:
            os._exit(0)
        if answer == token:
            return socket.socket(fileno=descriptors[0])
        os.close(descriptors[0])


def _carry_in_thread(client: socket.socket, host: socket.socket, room: threading.BoundedSemaphore) -> None:
    try:
        threading.Thread(target=carry, args=(client, host, room), daemon=True).start()
    except RuntimeError:  # the sandbox has no room for a thread: this connection fails, later ones may not
        client.close()
        host.close()
        room.release()


def carry(client: socket.socket, host: socket.socket, room: threading.BoundedSemaphore) -> None:
    """Copy both ways until both directions have ended; each end is passed on as a half-close."""
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_back, args=(host, client), daemon=True)
        back.start()
        copy(client, host)
        back.join()
    except (OSError, RuntimeError):
        pass  # the guest's end has gone, or there is no room for a thread: closing tells both sides
    finally:
        client.close()
        host.close()
        room.release()


def _back(host: socket.socket, client: socket.socket) -> None:
    """Copy what the host sends, and tell the guest when the host's end is closed altogether and not for writing alone."""
    copy(host, client)
    poll = select.poll()
    poll.register(host, 0)  # a hang-up is always reported; it also comes when both directions have ended
    poll.poll()
    _shut(client)


def _shut(end: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    try:
        end.shutdown(how)
    except OSError:
        pass


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy one direction. A target that reads no more ends this direction alone: what it sent before is still on its way."""
    while True:
        try:
            data = source.recv(CHUNK)
        except OSError:  # it was reset: nothing of it is worth anything
            _shut(source)
            _shut(target)
            return
        if not data:
            _shut(target, socket.SHUT_WR)
            return
        try:
            target.sendall(data)
        except OSError:
            _shut(source, socket.SHUT_RD)
            return
