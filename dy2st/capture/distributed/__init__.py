"""Modules that wrappers of ``torch.distributed`` run, in a captured function."""
