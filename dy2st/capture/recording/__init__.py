"""The modes and builders that record operations of torch into blocks."""
