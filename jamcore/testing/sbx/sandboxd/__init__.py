"""The daemon of the simulator: state, sandboxes, the proxy with its policy, secrets."""
