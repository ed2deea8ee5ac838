"""Branches: one value of two ways, and what is done once for each option of a tagged union."""
