"""What runs in a simulated sandbox as process 1: the standard library alone."""
