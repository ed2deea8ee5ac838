"""Several processes: what they would do together, before any of them is there."""
