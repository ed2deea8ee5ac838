"""What a loop goes over: iterables of any length, iterators and generators, and what changes while it is gone through."""
