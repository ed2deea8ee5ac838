"""From layers and static functions to archives."""
