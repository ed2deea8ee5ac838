"""What symbolic values say of themselves, and strings that hold them."""
