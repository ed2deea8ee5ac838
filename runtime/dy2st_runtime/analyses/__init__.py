"""What only looks at a program."""
