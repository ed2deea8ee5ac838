"""Operators of torch that need to know a number which only the program knows: ``torch.hann_window(n)``, ``x.unfold(0, n, 1)``.

So do some for the sizes of their operands. The program calls the operator with the number that it has then. What it gives is
learned from its real kernel, which runs for numbers and operands that are made up: where all results have the same kinds and ranks,
so has every one. A size that is the same as one of an operand's, or as a number, in all runs is that one; one that
stays is a constant, which the program checks; any other is a new symbol.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only, tree_structure

from dy2st.capture.recording import failing
from dy2st.capture.recording.fake_values import quiet, under_autograd
from dy2st.capture.recording.shapes_of_results import Learned, size_shown, strides_like
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.names import as_torch_names
from dy2st.capture.types import tensor_traits
from dy2st.capture.values import made_up
from dy2st.errors import DataDependentError
from dy2st_runtime.primitives import random_state

_NUMBERS = (torch.SymInt, torch.SymFloat)
_GROWING = frozenset(("combinations", "histogramdd"))
"""What needs memory to the power of a number: it is not tried for one that is made up."""
_INTS = (2, 3, 1, 4, 5, 6, 0, -1)
_FLOATS = (0.375, 0.75, 0.125, 2.5, 1.5, 5.25, 0.0, 1.0, -1.5)
"""What numbers are taken to be, run by run; several are the same, or as many places apart as they stand apart."""
_STEPS = (0, 1, 2)
_NUMERIC = frozenset(("float", "int", "number", "Optional[float]", "Optional[int]", "Optional[number]"))
_ENOUGH, _SIZES = 2, 3
"""How many runs tell; with how many sizes of operands each number is tried."""
_FILLS = (made_up.any_sign, made_up.positive)

_TRANSFORMS = frozenset(("backward",))
_THIN = {torch.Tensor.split: "split", torch.split: "split"}
"""Functions in Python that do no more than call an operator."""

Run = tuple[made_up.Values, Any, Any]
"""What symbols were taken to be, the operands, and what the operator gave."""


def call(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function of torch gives that does not take a number of the program; ``NotImplemented`` for any other.

    Raises:
        DataDependentError: the number decides how many results there are, or of what kind they are.
    """
    if not any(isinstance(leaf, _NUMBERS) or _is_sized_at_runtime(leaf) for leaf in tree_leaves((args, kwargs))):
        return NotImplemented
    if is_seen_by_others(session, args, kwargs):
        return NotImplemented
    name, args, kwargs = _as_operands(function, args, kwargs)
    is_leaf = kwargs.pop("requires_grad", False)
    leaves = tree_leaves((args, kwargs))
    packet = getattr(torch.ops.aten, name, None) if name and name not in _GROWING else None
    if packet is None or is_leaf not in (True, False) or any(isinstance(leaf, (torch.SymBool, torch.Generator)) for leaf in leaves):
        return NotImplemented
    operator, args, kwargs = _overload(packet, args, kwargs)
    result = NotImplemented if operator is None else of_operator(session, operator, args, kwargs, function)
    return result.requires_grad_() if is_leaf and result is not NotImplemented else result


def numbers_of_tensors(session: Session, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Return operands of a function that is written in C, with numbers for the tensors of which it asks what they hold."""
    name, operands, named = _as_operands(function, args, kwargs)
    packet = getattr(torch.ops.aten, name, None) if name else None
    for overload in packet.overloads() if packet is not None else ():
        arguments = getattr(packet, overload)._schema.arguments
        asked = [value for one, value in zip(arguments, operands) if _is_number_of(one, value)]
        asked += [named[one.name] for one in arguments if one.name in named and _is_number_of(one, named[one.name])]
        if asked and len(operands) <= len(arguments):
            return _in_place_of({id(tensor): session.to_number(tensor) for tensor in asked}, (args, kwargs))
    return None


def _in_place_of(numbers: dict[int, Any], operands: tuple[Any, Any]) -> tuple[Any, Any]:
    result: tuple[Any, Any] = tree_map(lambda leaf: numbers.get(id(leaf), leaf), operands)
    return result


def _is_number_of(argument: Any, value: Any) -> bool:
    """Tell whether a tensor stands where an operator takes a number."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and str(argument.type) in _NUMERIC


def of_operator(session: Session, operator: Any, args: Any, kwargs: Any, function: Any = None) -> Any:
    """Return what an operator gives.

    Args:
        session: the capture.
        operator: of torch.
        args, kwargs: its operands.
        function: what has called it, if that may give its results in a named tuple.
    """
    args, kwargs = tree_map_only(torch.Tensor, session.outside.adopted, (args, kwargs))
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if any(tensor.layout != torch.strided for tensor in tensors):
        return NotImplemented
    if operator._schema.is_mutable:
        return _in_place(session, operator, args, kwargs)
    if _viewed(operator) is not None and not any(isinstance(leaf, _NUMBERS) for leaf in tree_leaves((args, kwargs))):
        return NotImplemented  # it may be a view of some operands only
    runs = _runs(session, operator, args, kwargs)
    if len(runs) < _ENOUGH:
        return NotImplemented
    result = _recorded(session, operator, args, kwargs, runs)
    return result if function is None else _in_its_class(function, result, runs)


def _in_place(session: Session, operator: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator gives that writes its first operand and gives it back, whatever its numbers are."""
    if not _writes_first(operator) or not any(isinstance(leaf, torch.SymFloat) for leaf in tree_leaves((args, kwargs))):
        return NotImplemented
    failing.refuse_if_named(session, RuntimeError(), operator.overloadpacket.__name__, "test the number with an if statement")
    for number in _FLOATS:
        given, named = tree_map(functools.partial(_with, number), (args, kwargs))
        session.recorder.instead = (operator, args, kwargs)
        try:
            result = operator(*given, **named)
        except (RuntimeError, ValueError):  # it does not take this number, and has written nothing
            continue
        else:
            assert session.recorder.instead is None, f"{operator} is no operation"
            return result
        finally:
            session.recorder.instead = None
    return NotImplemented


def _with(number: float, leaf: Any) -> Any:
    return number if isinstance(leaf, _NUMBERS) else leaf


def _writes_first(operator: Any) -> bool:
    """Tell whether an operator writes its first operand, no other, and gives it back."""
    schema = operator._schema
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    aliases = [part.alias_info is not None for part in (*schema.arguments, *schema.returns)]
    return written[0] and sum(written) == 1 and len(schema.returns) == 1 and sum(aliases) == 2


def _is_sized_at_runtime(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in leaf.shape)


def is_seen_by_others(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a mode of the user's, a class of tensors or a transform says what a call of torch means."""
    modes = torch.overrides._get_current_function_mode_stack()
    if any(not isinstance(mode, PreDispatchTorchFunctionMode) for mode in modes) or not _TRANSFORMS.issuperset(session.transforms):
        return True
    return any(tensor_traits.users_class(leaf) is not None for leaf in tree_leaves((args, kwargs)))


def _as_operands(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return the name and the operands of a function of torch that is written in C; no name for any other."""
    args, kwargs = as_torch_names(function, args, kwargs)
    owner = getattr(function, "__self__", None)
    if function in _THIN:
        return _THIN[function], args, kwargs
    if not isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        return "", args, kwargs
    if isinstance(owner, torch.Tensor):
        return function.__name__, (owner, *args), kwargs
    module = getattr(function, "__module__", None) or ""
    of_torch = module.partition(".")[0] == "torch" or getattr(function, "__objclass__", None) is torch._C.TensorBase
    return function.__name__ if of_torch else "", args, kwargs


def _overload(packet: Any, args: Any, kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the overload that operands fit, ``None`` if they fit none, and the operands as its schema has them."""
    for name in packet.overloads():
        arguments = getattr(packet, name)._schema.arguments
        given = tuple(_as_list(argument, value) for argument, value in zip(arguments, args))
        named = kwargs | {one.name: _as_list(one, kwargs[one.name]) for one in arguments if one.name in kwargs}
        if len(given) == len(args) and _fits(packet, name, given, named):
            return getattr(packet, name), given, named
    return None, args, kwargs


def _fits(packet: Any, name: str, args: Any, kwargs: Any) -> bool:
    """Tell whether an overload is the one that operands fit."""
    given, named = tree_map(_example, (args, kwargs))
    try:
        with _disable_current_modes():
            return bool(torch._C._jit_resolve_packet(packet._qualified_op_name, *given, **named) == name)
    except RuntimeError:
        return False


def _example(leaf: Any) -> Any:
    return 2 if isinstance(leaf, torch.SymInt) else 0.5 if isinstance(leaf, torch.SymFloat) else leaf


def _as_list(argument: Any, value: Any) -> Any:
    """Return an operand where a list of as many as there are dimensions may be given as one number."""
    many = argument.N if isinstance(value, (int, float, *_NUMBERS)) else None
    return value if many is None else [value] * many


# -- what it gives ---------------------------------------------------------------------------------------------------------


def _runs(session: Session, operator: Any, args: Any, kwargs: Any) -> list[Run]:
    """Return what the real kernel gives for numbers and operands that are made up."""
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    ints = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
    sizes = made_up.symbols_of(tensors)
    numbers = sorted({symbol for leaf in ints for symbol in leaf.node.expr.free_symbols}, key=str)
    for choice in made_up.sizes(sizes, _SIZES if sizes else 1):
        results: list[Run] = []
        attempts = itertools.count()
        for values in choice:
            for taken in _taken(session, numbers):
                known, at = {**values, **taken}, next(attempts)
                ran = next((ran for fill in _FILLS if (ran := _run(operator, args, kwargs, known, fill, at)) is not None), None)
                if ran is not None:
                    results.append((known, *ran))
        if len(results) >= _ENOUGH:
            return results
    return []


def _taken(session: Session, numbers: Sequence[Any]) -> Iterator[made_up.Values]:
    """Yield what the numbers are taken to be, within the bounds that are known."""
    for step in _STEPS if len(numbers) > 1 else _STEPS[:1]:
        for at in range(len(_INTS)):
            values = {number: _INTS[(at + step * place) % len(_INTS)] for place, number in enumerate(numbers)}
            ranges = session.shapes.var_to_range
            if all(number not in ranges or value in ranges[number] for number, value in values.items()):
                yield values


def _run(operator: Any, args: Any, kwargs: Any, values: made_up.Values, fill: made_up.Fill, at: int) -> Any:
    """Return the operands and the results of a run; ``None`` where the kernel refuses them."""
    count = iter(range(at, at + 100))

    def real(leaf: Any) -> Any:
        if isinstance(leaf, torch.SymFloat):
            return _FLOATS[next(count) % len(_FLOATS)]
        if isinstance(leaf, torch.SymInt):
            return made_up.taken(leaf, values)
        return made_up.like(leaf, values, fill) if isinstance(leaf, torch.Tensor) else leaf

    with _disable_current_modes(), random_state.kept(), made_up.quietly():
        try:
            given, named = tree_map(real, (args, kwargs))
            result = operator(*given, **named)
        except Exception:  # whatever a kernel raises: it refuses
            return None
    is_tensors = all(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result))
    return ((given, named), result) if is_tensors else None


def _recorded(session: Session, operator: Any, args: Any, kwargs: Any, runs: Sequence[Run]) -> Any:
    """Record the call, and return its abstract results."""
    first = runs[0][2]
    if not all(_are_alike(first, result) for _, _, result in runs) or _may_give_operand(operator, runs):
        raise DataDependentError(
            f"{operator.overloadpacket.__name__}() gets a number that is known only at run time, and it decides how many results "
            "there are, or of what kind",
            session.here(),
            fix="pass the number as a Python argument, or write if statements for the numbers that it may be",
        )
    failing.refuse_if_named(session, RuntimeError(), operator.overloadpacket.__name__, "test the number with an if statement")
    learned = _learned(session, operator, args, kwargs, runs)
    tensor_traits.follow(session, operator, (args, kwargs), learned.result, [])
    session.builder.call(operator, args, kwargs, learned.result)
    learned.check(session)
    return learned.result


def _are_alike(first: Any, second: Any) -> bool:
    pairs = list(zip(tree_leaves(first), tree_leaves(second)))
    same_form = tree_structure(first) == tree_structure(second)
    return same_form and all(
        (a.dtype, a.dim(), a.device, a.requires_grad) == (b.dtype, b.dim(), b.device, b.requires_grad) for a, b in pairs
    )


def _may_give_operand(operator: Any, runs: Sequence[Run]) -> bool:
    """Tell whether for some numbers an operator gives its operand itself, and for others a copy."""
    if _viewed(operator) is not None:
        return False
    for _, operands, result in runs:
        held = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves(operands) if isinstance(leaf, torch.Tensor)} - {0}
        if any(leaf.untyped_storage().data_ptr() in held for leaf in tree_leaves(result)):
            return True
    return False


def _viewed(operator: Any) -> int | None:
    """Return which operand the result of an operator is a view of."""
    places = (place for place, argument in enumerate(operator._schema.arguments) if argument.alias_info is not None)
    return next(places, None)


def _learned(session: Session, operator: Any, args: Any, kwargs: Any, runs: Sequence[Run]) -> Learned:
    leaves = tree_leaves((args, kwargs))
    known: list[Any] = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
    known += [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape if not isinstance(size, int)]
    values = [[made_up.taken(size, taken) for size in known] for taken, _, _ in runs]
    results = [iter(tree_leaves(result)) for _, _, result in runs]
    viewed = _viewed(operator)
    sizes: list[list[Any]] = []

    def abstract(first: torch.Tensor) -> torch.Tensor:
        shown = [next(result) for result in results]
        dims = [size_shown(one, known, values) for one in zip(*(tensor.shape for tensor in shown), strict=True)]
        sizes.append(dims)
        shape = [session.shapes.fresh_int(size=True) if size is None else size for size in dims]
        if viewed is not None:
            return _view(session, args[viewed], shape, shown)
        with quiet(), torch.enable_grad():
            result = torch.empty_strided(shape, strides_like(first, shape), dtype=first.dtype, device=first.device)
            return result.requires_grad_().clone() if first.requires_grad else result

    return Learned(tree_map_only(torch.Tensor, abstract, runs[0][2]), sizes)


def _view(session: Session, operand: torch.Tensor, shape: list[Any], shown: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a view of an operand, of which strides and place in memory are known where all runs show the same."""
    fixed = all(type(part) is int for part in (*operand.shape, *operand.stride())) and operand.is_contiguous()

    def number(ways: tuple[int, ...]) -> Any:
        return ways[0] if fixed and len({*ways}) == 1 else session.shapes.fresh_int(size=True)

    strides = [number(ways) for ways in zip(*(tensor.stride() for tensor in shown), strict=True)]
    offset = session.shapes.fresh_int(size=True)
    with quiet(), under_autograd():
        return operand.as_strided(shape, strides, offset)


def _in_its_class(function: Callable[..., Any], result: Any, runs: Sequence[Run]) -> Any:
    """Return results in the named tuple that the function gives, where the operator gives a plain one."""
    if isinstance(result, list):  # what is written in C gives tuples
        return tuple(result)
    if not isinstance(result, tuple):
        return result
    given, named = runs[0][1]
    method = isinstance(getattr(function, "__self__", None), torch.Tensor)
    with _disable_current_modes(), random_state.kept(), made_up.quietly():
        real = getattr(given[0], function.__name__)(*given[1:], **named) if method else function(*given, **named)
    return type(real)(result) if type(real) is not tuple else result
