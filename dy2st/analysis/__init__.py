"""Read-only questions about a tree: who binds what, what is live, what is surely bound."""
