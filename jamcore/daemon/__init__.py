"""The daemon: its services, how they are composed, started and stopped."""
