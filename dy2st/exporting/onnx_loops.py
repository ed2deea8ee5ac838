"""Makes the loops of an ONNX model carry less from iteration to iteration.

    first = Less(0, n)                                         h = Max(0, n)
    g, i, x, k = Loop("", first, first, 0, x0, 0)              x = Loop(n, "", x0)
      body (iteration, going, g_in, i_in, x_in, k_in):                body (iteration, going, x_in):
        x_out = Mul(x_in, Cast(i_in))                              x_out = Mul(x_in, Cast(iteration))
        i_out = Add(i_in, 1)                          →            again = Identity(going)
        again = Less(i_out, n)                                   i = h
        g_out = Identity(again)                                  k = Where(first, -1, 0)
        k_out = -1

* The condition comes in anyway: a variable that holds it, too, goes.
* A variable that is the same constant after every iteration is chosen after the loop.
* A loop that counts up to a number that is known before it needs no condition, and its counter is the number of the iteration.

onnxruntime takes a microsecond or so for each operation and each variable of an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass


def simplify_loops(model: ir.Model) -> None:
    """Rewrite the loops of a model, those inside of branches and loops as well.

    Args:
        model: any model; it is changed.
    """
    changed = False
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in list(graph):
            if node.op_type == "Loop" and node.domain == "":
                changed |= _Loop(graph, node).simplified()
    if changed:
        RemoveUnusedNodesPass()(model)


class _Loop:
    """One loop.

    Args:
        graph: where it stands.
        node: it.

    Attributes:
        first: the values of its variables before the first iteration.
        gone: the places of variables that are needed no more.
    """

    def __init__(self, graph: ir.Graph, node: ir.Node) -> None:
        self.graph, self.node = graph, node
        self.body: ir.Graph = node.attributes["body"].as_graph()
        self.limit, self.condition = node.inputs[:2]
        self.first: Sequence[ir.Value | None] = node.inputs[2:]
        self.gone: list[int] = []

    def simplified(self) -> bool:
        """Do all that can be done; gives whether that was anything."""
        if self.limit is not None or self.condition is None:
            return False
        for place in range(len(self.first)):
            if self._holds_condition(place) or self._is_invariant(place):
                self.gone.append(place)
        counter = next((place for place in range(len(self.first)) if place not in self.gone and self._counts(place)), None)
        if counter is not None:
            self._count(counter)
            self.gone.append(counter)
        if self.gone:
            self._write()
        return bool(self.gone)

    def variable(self, place: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return a variable as an iteration takes it, as it gives it, and as the loop gives it."""
        return self.body.inputs[2 + place], self.body.outputs[1 + place], self.node.outputs[place]

    # -- the condition once more ---------------------------------------------------------------------------------------------

    def _holds_condition(self, place: int) -> bool:
        taken, given, result = self.variable(place)
        same = _through_identity(given) is _through_identity(self.body.outputs[0]) and _is_same(self.first[place], self.condition)
        if not same or taken.is_graph_output() or _is_used(result):
            return False
        taken.replace_all_uses_with(self.body.inputs[1])
        return True

    # -- constants -----------------------------------------------------------------------------------------------------------

    def _is_invariant(self, place: int) -> bool:
        taken, given, result = self.variable(place)
        known, before = _constant(given), self.first[place]
        if known is None or known.shape != () or before is None or before.shape is None or before.shape.rank() or _is_used(taken):
            return False
        if _is_used(result):
            after = self._initializer(f"{given.name}_after", known)
            self._replace(result, "Where", [self.condition, after, before])
        return True

    # -- counting ------------------------------------------------------------------------------------------------------------

    def _counts(self, place: int) -> bool:
        """Tell whether a variable grows by one in each iteration up to a number from outside, and nothing else ends the loop."""
        taken, given, _ = self.variable(place)
        first, again, step = _less(self.condition), _less(self.body.outputs[0]), _producer(given, "Add")
        before = self.first[place]
        if first is None or again is None or step is None or before is None or taken.is_graph_output():
            return False
        parts = list(step.inputs)
        grows = any(one is taken and _is_one(other) for one, other in (parts, parts[::-1]))
        end = again[1]
        if not grows or again[0] is not given or end is None or not all(map(_is_whole_number, (before, end))):
            return False
        outside = _constant(end) is not None or end.graph is not self.body
        return outside and _is_same(first[0], before) and _is_same(first[1], end)

    def _count(self, place: int) -> None:
        """Let the loop count."""
        taken, _, result = self.variable(place)
        before, end = _less(self.condition) or (None, None)
        number = self.body.inputs[0]
        if _is_zero(before):
            self.limit = end
        else:
            reached = self._before("Max", [before, end])  # a difference of both could be too large a number
            self.limit = self._before("Sub", [reached, before])
            moved = _named(ir.node("Add", [number, before]), taken)
            self.body.insert_before(next(iter(self.body)), moved)
            number = moved.outputs[0]
        if _is_used(result):
            self._replace(result, "Max", [before, end])
        taken.replace_all_uses_with(number)
        going = _named(ir.node("Identity", [self.body.inputs[1]]), self.body.outputs[0], ir.DataType.BOOL)
        self.body.append(going)
        self.body.outputs[0] = going.outputs[0]
        self.condition = None

    # -- writing -------------------------------------------------------------------------------------------------------------

    def _before(self, operator: str, inputs: Sequence[ir.Value | None]) -> ir.Value:
        """Return an operation before the loop."""
        result = _named(ir.node(operator, inputs), self.node.outputs[0])
        self.graph.insert_before(self.node, result)
        return result.outputs[0]

    def _replace(self, old: ir.Value, operator: str, inputs: Sequence[ir.Value | None]) -> None:
        """Give an operation's result in the place of another value, under its name."""
        _take_place(old, self._before(operator, inputs))

    def _initializer(self, name: str, value: numpy.ndarray) -> ir.Value:
        result = ir.val(name, const_value=ir.tensor(value, name=name))
        self.graph.register_initializer(result)
        return result

    def _write(self) -> None:
        """Put a loop without the variables that are gone in the place of this one."""
        kept = [place for place in range(len(self.first)) if place not in self.gone]
        scans = range(len(self.first), len(self.node.outputs))
        inputs = [self.limit, self.condition, *(self.first[place] for place in kept)]
        result = ir.node("Loop", inputs, num_outputs=len(kept) + len(scans), name=self.node.name)
        for new, place in zip(result.outputs, (*kept, *scans)):
            _take_place(self.node.outputs[place], new)
        for place in sorted(self.gone, reverse=True):
            self.body.inputs.pop(2 + place)
            given = self.body.outputs.pop(1 + place)
            if given.is_initializer() and not _is_used(given):
                del self.body.initializers[given.name or ""]
        body = self.node.attributes.pop("body")
        self.graph.insert_before(self.node, result)
        self.graph.remove(self.node, safe=True)
        result.attributes.add(body)


def _named(node: ir.Node, like: ir.Value, dtype: ir.DataType = ir.DataType.INT64) -> ir.Node:
    """Return an operation that gives one number, with a name for it."""
    result = node.outputs[0]
    result.name = f"{like.name}_{node.op_type.lower()}"
    result.dtype, result.shape = dtype, ir.Shape(())
    return node


def _take_place(old: ir.Value, new: ir.Value) -> None:
    new.name, new.type, new.shape = old.name, old.type, old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name = f"{old.name}_unused"


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    result = value.producer() if value is not None else None
    return result if result is not None and result.op_type in operators and result.domain == "" else None


def _less(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None] | None:
    """Return what a condition says is less than what."""
    result = _producer(value, "Less", "Greater")
    if result is None:
        return None
    left, right = result.inputs
    return (left, right) if result.op_type == "Less" else (right, left)


def _through_identity(value: ir.Value) -> ir.Value | None:
    result = _producer(value, "Identity")
    return result.inputs[0] if result is not None else value


def _constant(value: ir.Value | None) -> numpy.ndarray | None:
    if value is None or value.is_graph_input() or value.const_value is None:
        return None
    return value.const_value.numpy()


def _is_same(one: ir.Value | None, other: ir.Value | None) -> bool:
    """Tell whether two values are surely equal."""
    if one is other:
        return True
    left, right = _constant(one), _constant(other)
    if left is None or right is None or left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool((left == right).all())


def _is_whole_number(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.INT64 and value.shape is not None and value.shape.rank() == 0


def _is_zero(value: ir.Value | None) -> bool:
    result = _constant(value)
    return result is not None and not result.any()


def _is_one(value: ir.Value | None) -> bool:
    result = _constant(value)
    return result is not None and result.shape == () and bool(result == 1)
