"""Measured comparisons with eager PyTorch and its compilers: ``python -m benchmarks``."""
