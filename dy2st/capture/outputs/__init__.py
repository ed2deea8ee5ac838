"""What a program gives and writes at its end: the structure of its results, and the effects on what is outside."""
