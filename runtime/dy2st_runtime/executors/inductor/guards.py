"""Guards against mistakes of PyTorch's compiler, as operations that are put into its graphs.

What is known of torch 2.13, with branches and loops:

* The branches of ``torch.cond`` are compiled for operands that lie in memory as the graph says, and get them as they came to lie,
  as columns of the result of a ``cat`` for one. So each operand is laid out as the branches expect it.
* A ``while_loop`` without iterations gives the very tensors that it took, and their memory is used again for something else while
  its results are alive. So a loop starts from copies of its own, whose memory nothing else gets.
* What it finds to be the same (two equal expressions, ``x + 0`` and ``x``) becomes one tensor, also where it is given back twice,
  or was given. So each such result is copied.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.executors.inductor.graph_passes import ChainedPass

_VERSION = 1
"""Part of the key under which Inductor keeps what it compiled; it counts up with each change in this file."""

_library = torch.library.Library("dy2st", "FRAGMENT")
_library.define("laid_out(Tensor x) -> Tensor")
_library.define("owned(Tensor x) -> Tensor")
for _name in ("laid_out", "owned"):
    _library.impl(_name, torch.clone, "CompositeExplicitAutograd")


def own_results(graph: fx.Graph, count: int | None = None) -> None:
    """Let results of a graph share no memory with each other or with what it takes.

    Args:
        graph: one in which nothing is changed in place, except for what it takes at its end.
        count: how many of its results, from the first on; all of them by default.
    """
    output = graph.output_node()
    results: Any = output.args[0]
    given = list(results) if isinstance(results, (list, tuple)) else [results]
    seen: set[fx.Node] = set()
    for index, value in enumerate(given[:count]):
        if not _is_tensor(value):
            continue
        base = _base(value)
        if base in seen or base.op != "call_function":
            with graph.inserting_before(output):
                given[index] = _call(graph, torch.ops.aten.clone.default, value)
        seen.add(base)
    output.args = (type(results)(given),) if isinstance(results, (list, tuple)) else (given[0],)


def _base(value: fx.Node) -> fx.Node:
    """Return what a tensor is a view of."""
    while isinstance(value.target, torch._ops.OpOverload) and value.target.is_view and isinstance(value.args[0], fx.Node):
        value = value.args[0]
    return value


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Compile with the guards; a pass of the user's own runs before them."""
    _add_lowerings()
    settings: Any = torch._inductor.config
    guards = ChainedPass(_put_guards, f"dy2st guards {_VERSION}", settings.post_grad_custom_post_pass)
    with settings.patch(post_grad_custom_post_pass=guards):
        yield


def _put_guards(graph: fx.Graph) -> None:
    for node in list(graph.nodes):
        if node.target in (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop):
            _own_results_of_blocks(graph, node)
        if node.target is torch.ops.higher_order.cond:
            _replace(graph, node, 3, torch.ops.dy2st.laid_out.default)
        elif node.target is torch.ops.higher_order.while_loop:
            _replace(graph, node, 2, torch.ops.dy2st.owned.default)


def _own_results_of_blocks(graph: fx.Graph, node: fx.Node) -> None:
    for block in node.args:
        if isinstance(block, fx.Node) and block.op == "get_attr":
            module = getattr(graph.owning_module, str(block.target))
            if isinstance(module, fx.GraphModule):
                own_results(module.graph)
                module.recompile()


def _replace(graph: fx.Graph, node: fx.Node, position: int, target: Any) -> None:
    """Put an operation before each tensor in an argument that is a tuple."""
    given: Any = node.args[position]
    with graph.inserting_before(node):
        results = tuple(_call(graph, target, value) if _is_tensor(value) else value for value in given)
    node.update_arg(position, results)


def _call(graph: fx.Graph, target: Any, value: fx.Node) -> fx.Node:
    node = graph.call_function(target, (value,))
    node.meta["val"] = value.meta["val"].new_empty_strided(value.meta["val"].size(), value.meta["val"].stride())
    return node


def _is_tensor(value: Any) -> bool:
    return isinstance(value, fx.Node) and isinstance(value.meta.get("val"), torch.Tensor)


@functools.cache
def _add_lowerings() -> None:
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering
    from torch._inductor.virtualized import V

    def laid_out(x: Any) -> Any:
        return ir.ExternKernel.require_exact_strides(x, V.graph.current_node.meta["val"].stride(), allow_padding=False)

    def owned(x: Any) -> Any:
        result = laid_out(ir.ExternKernel.copy_input(x))
        V.graph.never_reuse_buffers.add(result.get_name())
        return result

    register_lowering(torch.ops.dy2st.laid_out.default, type_promotion_kind=None)(laid_out)
    register_lowering(torch.ops.dy2st.owned.default, type_promotion_kind=None)(owned)
