"""What becomes of programs that several processes run together."""
