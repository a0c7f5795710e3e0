"""Session workspaces: where they lie, how they are made, and Jam's own view of what is in them."""
