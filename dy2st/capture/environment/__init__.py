"""What was there before the capture: sources, guards, state from outside, whose code is whose."""
