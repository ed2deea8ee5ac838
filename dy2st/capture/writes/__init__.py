"""What captured code writes: places, the undo log, the order of keys, objects that may be one."""
