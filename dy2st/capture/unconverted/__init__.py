"""Calls of code that is not converted: what it may read and write, and islands, which the program calls when it runs."""
