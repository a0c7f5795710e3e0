"""The built-in profiles."""
