"""NumPy in programs: an array is a tensor of the program, and NumPy itself is called when it runs."""
