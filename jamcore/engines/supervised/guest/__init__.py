"""What runs inside a sandbox as process 1 and beside it: the standard library alone, ``python -I -S``, compiled on the host.

The host imports ``frames`` too, so that both ends speak from one table.
"""
