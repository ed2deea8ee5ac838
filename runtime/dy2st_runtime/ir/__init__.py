"""The program: graphs, structure, types, constants, and their text."""
