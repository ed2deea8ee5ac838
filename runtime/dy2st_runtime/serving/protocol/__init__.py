"""The Open Inference Protocol, version 2: its datatypes, and its messages as JSON and as protocol buffers; nothing listens here."""
