"""The call operator, modules, context managers and patterns."""
