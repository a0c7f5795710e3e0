"""Live things: which host a session sits on, the worker of each host, and the turns that run there."""
