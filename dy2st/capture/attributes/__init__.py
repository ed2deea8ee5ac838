"""Attributes, items and names, as Python reads and writes them."""
