"""The ``.dy2st`` file: what is in it, and how it is written and read."""
