"""What runs inside the sandbox: standard library only, started as files, never imported by the host."""
