"""Straight code that tells whether a call is one that a captured program serves."""
