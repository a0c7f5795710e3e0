"""``jam demo``: the main job of Jam, done for real on this machine and proven step by step, with no account."""
