"""The lattice of types, what two ways have in common, and abstract values of a type."""
