"""Whose fault an exception is, and how it is told in the words of the user."""
