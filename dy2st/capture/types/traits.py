"""What one capture knows about traits of tensors: which ways differ in, which the code asks for."""

from __future__ import annotations

ACTS_FOR_USER = False


class Traits:
    """The traits of the tensors of one capture.

    Args:
        apart: the traits that are told apart (see tensor_traits.py).

    Attributes:
        has_mixed: whether some tensors differ from way to way in such a trait.
        asked: those that the code asks for: then the program is for inputs that have the same.
        asks_strides: whether the code asks how a tensor lies in memory: then the program is for inputs that lie as these do.
        graph_is_partial: whether abstract values have been made that autograd does not connect with what they were made from.
        has_lost_graph: whether some of these do not say so themselves.
        has_classes: whether some tensors are of classes that the user has written.
        outer_class: the last of such classes that a tensor from outside is of.
        has_tables: whether some dicts or sets are those of the program.
        is_aligned: for the branches of transformer encoders, the innermost last: whether the padding is at the end.
    """

    def __init__(self, apart: frozenset[str] = frozenset()) -> None:
        self.apart = apart
        self.has_mixed = False
        self.asked: set[str] = set()
        self.asks_strides = False
        self.graph_is_partial = False
        self.has_lost_graph = False
        self.has_classes = False
        self.outer_class: type | None = None
        self.has_tables = False
        self.is_aligned: list[bool] = []
