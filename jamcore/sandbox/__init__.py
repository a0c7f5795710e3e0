"""From a request to a prepared sandbox: one plan, one proof of ownership, one preparation path, one way down."""
