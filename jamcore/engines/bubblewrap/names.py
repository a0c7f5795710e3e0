"""The engine's own name."""

ENGINE = "bubblewrap"
