"""The engine's own name."""

ENGINE = "local"
