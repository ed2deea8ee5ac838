"""The functions of torch whose calls a capture takes over: the mode that sees them, and what it does for each."""
