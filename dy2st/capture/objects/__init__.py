"""Objects while they are captured: how they are made, hidden in C, or held in lists of the program."""
