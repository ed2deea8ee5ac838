"""Dicts, sets, deques and sorting, where a tensor decides."""
