"""``jam``: one file per command. Reaches the daemon only through the typed client, and starts it when needed."""
