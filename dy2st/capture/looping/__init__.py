"""Loops, iterators, generators, and what takes an iterable apart."""
