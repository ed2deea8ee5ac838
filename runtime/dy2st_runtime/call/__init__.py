"""A call of a program: its arguments bound, its effects carried out, its errors told."""
