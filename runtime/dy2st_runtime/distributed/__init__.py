"""What programs do together with other processes."""
