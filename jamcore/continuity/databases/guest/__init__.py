"""What runs in a sandbox beside the provider to copy and restore its databases: a Python's standard library alone, never in the daemon."""
