"""Static functions: from a call to its signature, its program, and the way there at the next call."""
