"""What nodes of a program call beside operators of torch."""
