"""The passes that change no bit, one after the other."""

from __future__ import annotations

from dy2st_runtime.ir.program import Program
from dy2st_runtime.passes.common_subexpressions import merge_common
from dy2st_runtime.passes.constant_folding import fold_constants
from dy2st_runtime.passes.dead_code import remove_dead_code
from dy2st_runtime.passes.loop_invariants import hoist_invariants
from dy2st_runtime.passes.simplify import simplify
from dy2st_runtime.passes.unused_tensors import remove_unused_tensors


def optimize(program: Program, *, gradients: bool = True) -> Program:
    """Make a program do less for the same results, bit for bit, and the same errors.

    Args:
        program: any program.
        gradients: whether autograd may record what it does. With ``False``, which is for inference, tensors that are computed
            twice, or in a loop without changing there, are computed once; gradients through the program may be rounded otherwise.

    Returns:
        A program with the same inputs, results and effects.

    Example:
        >>> from functools import partial
        >>> static = dy2st.to_static(lambda x: (x.exp() + 1, x.exp() + 2), passes=[partial(optimize, gradients=False)])
        >>> sum("exp" in str(node.target) for node in static.program(torch.ones(3)).nodes())
        1
    """
    program = remove_dead_code(fold_constants(program))
    program = merge_common(simplify(program, gradients=gradients), gradients=gradients)
    program = hoist_invariants(program, gradients=gradients)
    return remove_dead_code(remove_unused_tensors(merge_common(program, gradients=gradients)))
