"""Exceptions that the program raises: their way out of blocks, and what follows on the ways without one."""
