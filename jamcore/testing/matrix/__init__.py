"""Every journaled kind of a composed daemon, cut and failed wherever it can be: worlds, scenarios, and what must hold (WS-12)."""
