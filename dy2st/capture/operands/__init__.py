"""What operators do with their operands, where torch's code for abstract values does not tell."""
