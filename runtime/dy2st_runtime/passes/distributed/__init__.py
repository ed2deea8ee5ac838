"""Passes for programs that work together with other processes."""
