"""Lists, tuples and ranges whose length only the program knows."""
