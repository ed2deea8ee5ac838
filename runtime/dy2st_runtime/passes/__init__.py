"""Passes: each takes a valid program and gives a valid program; the one it was given stays as it is."""
