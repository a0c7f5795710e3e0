"""The control interface: HTTP over a private Unix socket, its typed client, and the one settings object."""
