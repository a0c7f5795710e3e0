"""The only way from a guest to the network: a relay to exactly one endpoint, with the credential added outside the guest."""
