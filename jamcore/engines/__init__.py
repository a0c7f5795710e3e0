"""Engines make sandboxes. The port is the only thing the core knows of them."""
