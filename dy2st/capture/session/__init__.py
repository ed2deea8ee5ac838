"""One capture: its regions, allocations, lists, and the functions of torch that it stands in for."""
