"""Archives made smaller: weights that are stored otherwise, and the programs that read them."""
