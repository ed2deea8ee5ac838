"""Branches and loops in the operators that ``torch.export`` knows, and what those carry."""
