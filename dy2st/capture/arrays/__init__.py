"""NumPy in captured code: arrays of the program, and calls of NumPy that it makes."""
