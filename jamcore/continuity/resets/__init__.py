"""The way out when a conversation cannot come back: its evidence, and the fresh start (CONT-9)."""
