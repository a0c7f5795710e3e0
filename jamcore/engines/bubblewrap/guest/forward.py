"""Carries connections from the guest's loopback ports to the host. Standard library only.

For each accepted connection it asks over a socket pair that was connected before it started, and gets one end of a fresh pair back. No
path of the host is visible here, and no descriptor ever goes to the host.
"""

import os
import selectors
import socket
import threading

CONNECTIONS = 64
CHUNK = 1 << 16


def run(relay, ports):
    """Serve until the relay's other end is gone."""
    room = threading.BoundedSemaphore(CONNECTIONS)
    selector = selectors.DefaultSelector()
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(CONNECTIONS)
        selector.register(listener, selectors.EVENT_READ, port)
    threading.stack_size(256 << 10)
    while True:
        for key, _ in selector.select():
            room.acquire()
            client, _ = key.fileobj.accept()
            host = ask(relay, key.data)
            threading.Thread(target=carry, args=(client, host, room), daemon=True).start()


def ask(relay, port):
    """Ask for a connection to the host's side of a port."""
    relay.send(port.to_bytes(2, "big"))
    data, descriptors, _, _ = socket.recv_fds(relay, 16, 1)
    if not data or not descriptors:
        os._exit(0)
    return socket.socket(fileno=descriptors[0])


def carry(client, host, room):
    """Copy both ways until both directions have ended; each end is passed on as a half-close."""
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=copy, args=(host, client), daemon=True)
        back.start()
        copy(client, host)
        back.join()
    finally:
        client.close()
        host.close()
        room.release()


def copy(source, target):
    """Copy one direction."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
