"""Comparisons, identity, membership, and the operators that users write."""
