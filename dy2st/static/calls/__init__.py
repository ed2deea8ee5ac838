"""Calls taken apart, and what a function expects of them."""
