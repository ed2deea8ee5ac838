"""Values that exist only during a capture: symbolic numbers, tagged unions, texts; where real ones keep their parts."""
