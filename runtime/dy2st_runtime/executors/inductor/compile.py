"""One region through AOTAutograd and Inductor, down to the functions that Inductor generated.

``torch.compile``'s own entry checks and wraps much that a region does not need: it has no views among its results, no
subclasses, no random numbers. So what is called here are the generated functions themselves, behind a check of sizes and strides
(:class:`Compiled.check`) and, in training, an autograd function of one step (:mod:`.inductor_autograd`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from dy2st_runtime.executors.inductor.guards import guarded, own_results
from dy2st_runtime.executors.inductor.products import join_sums
from dy2st_runtime.executors.python.code import tuple_text

Boxed = Callable[[list[Any]], Sequence[Any]]
"""A generated function: takes its arguments in a list, which it empties."""

lock = threading.RLock()
"""Held by every compilation: Inductor does one at a time."""


class CannotCompile(Exception):
    """A region stays as it is."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A region for some kind of arguments.

    Attributes:
        check: raises :class:`AssertionError` when the arguments are not of this kind.
        check_text: the lines of that check, over names ``a0``, ``a1``…
        space: what the lines refer to.
        forward: the generated function.
        backward: that of the gradients; ``None`` when it was compiled without.
        outputs: how many of the results of ``forward`` are those of the region.
        saved: where among its results are the tensors that ``backward`` takes.
        sizes: where the sizes that it takes are.
        requires_grad: for each input, whether a gradient is computed.
        reaches: for each output, the positions of inputs that its gradient flows to.
        tangents: the outputs whose gradients ``backward`` takes.
        layouts: how they must lie in memory.
        kinds: the dtypes and devices of the outputs.
        shapes: their shapes, where they do not depend on the arguments.
        autocast: the state of autocast that it was compiled in.
        cut: whether no gradient ever flows through it, whatever its inputs require.
    """

    check_text: tuple[str, ...]
    space: dict[str, Any]
    forward: Boxed
    backward: Boxed | None
    outputs: int
    saved: slice
    sizes: slice
    requires_grad: tuple[bool, ...]
    reaches: tuple[frozenset[int], ...]
    tangents: tuple[int, ...]
    layouts: tuple[Any, ...]
    kinds: tuple[tuple[torch.dtype, torch.device], ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    autocast: Any
    cut: bool = False


def compile_region(
    graph: fx.Graph | fx.GraphModule, args: Sequence[Any], dynamic: Sequence[frozenset[int]], requires_grad: Sequence[bool]
) -> Compiled:
    """Compile a region, or a whole program.

    Args:
        graph: what it computes; a module where it has branches and loops of torch, which is for inference only.
        args: values of its inputs.
        dynamic: for each input, the dimensions whose size may differ from call to call.
        requires_grad: for each input, whether its gradient is wanted; all false for inference.

    Raises:
        CannotCompile: Inductor does not take it, or what comes out needs more than a plain call.
    """
    training = any(requires_grad)
    autocast = autocast_state()
    whole = isinstance(graph, fx.GraphModule)
    with lock, _settings(training, whole, _CHECKS_NAME_SIZES and any(dynamic)):
        env = ShapeEnv(duck_shape=False)
        mode = FakeTensorMode(shape_env=env)
        fakes = [_fake(mode, index, *given) for index, given in enumerate(zip(args, dynamic, requires_grad))]
        writer = _described(fakes)  # before the compiler learns more about the symbols
        outputs = _outputs(graph, fakes, mode) if training and not isinstance(graph, fx.GraphModule) else ()
        reaches = _reaches(outputs, fakes)
        if training and not any(reaches):
            return dataclasses.replace(compile_region(graph, args, dynamic, [False] * len(args)), cut=True)
        context = TracingContext(mode)
        result = _generate(graph, fakes, context)
        metadata: Any = context.fw_metadata
        _refuse(metadata, result, training)
        lines, space = _check(writer, env)
        return Compiled(
            lines,
            space,
            result["forward"],
            result.get("backward"),
            len(metadata.output_info),
            metadata.tensors_saved_for_backwards_slice if training else slice(0, 0),
            metadata.symints_saved_for_backwards_slice if training else slice(0, 0),
            tuple(requires_grad),
            reaches,
            tuple(i for i, info in enumerate(metadata.output_info) if info.requires_grad_for_backward),
            tuple(meta.memory_format for meta in metadata.subclass_tangent_meta),
            tuple((output.dtype, output.device) for output in outputs),
            tuple(_fixed_shape(output) for output in outputs),
            autocast,
        )


def autocast_state() -> Any:
    """Return what autocast does now; ``None`` when it is off."""
    if not torch._C._is_any_autocast_enabled():
        return None
    kinds = ("cpu", "cuda")
    return tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds)


_CHECKS_NAME_SIZES = torch.__version__ >= "2.15"
"""Whether generated code knows the sizes of its arguments only where it checks them; dy2st has checked them by then."""


@contextlib.contextmanager
def _settings(training: bool, whole: bool, checked: bool) -> Iterator[None]:
    """Apply Inductor's settings; they are part of the key of its disk cache.

    Loops are worth the C++ around the kernels, which takes longer to compile.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    with contextlib.ExitStack() as stack:
        settings = {"size_asserts": checked, "cpp_wrapper": whole, "fallback_random": True, "emulate_precision_casts": True}
        stack.enter_context(inductor.patch(settings))
        stack.enter_context(
            functorch.patch(enable_autograd_cache=False, donated_buffer=False, force_non_lazy_backward_lowering=True)
        )
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(training))
        if whole:
            stack.enter_context(guarded())
        yield


def _fake(mode: FakeTensorMode, index: int, value: Any, dynamic: frozenset[int], requires_grad: bool) -> Any:
    """Return an abstract value for an argument, with symbols for what may differ."""
    from torch._dynamo.source import ConstantSource

    source, env = ConstantSource(f"a{index}"), mode.shape_env
    if not isinstance(value, torch.Tensor):
        symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)  # type: ignore[union-attr]
        return env.create_symintnode(symbol, hint=value, source=source)  # type: ignore[union-attr]
    if value.layout is not torch.strided:
        raise CannotCompile(f"an operand has the layout {value.layout}")
    fixed = torch.no_grad() if dynamic else mode
    with fixed:
        plain = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    plain.requires_grad_(requires_grad)
    if not dynamic:
        return plain
    sizes = [DimDynamic.DYNAMIC if dim in dynamic else DimDynamic.STATIC for dim in range(value.dim())]
    strides = [DimDynamic.INFER_STRIDE] * value.dim()
    symbols: Any = StatelessSymbolicContext(sizes, strides, [None] * value.dim(), [None] * value.dim())
    return mode.from_tensor(plain, source=source, symbolic_context=symbols)


def _generate(graph: fx.Graph | fx.GraphModule, fakes: Sequence[Any], context: TracingContext) -> dict[str, Boxed]:
    """Run the compiler, and keep the functions that it generates."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    results: dict[str, Boxed] = {}

    def inner(gm: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        backward = bool(options.get("is_backward"))
        join_sums(gm.graph)
        if not backward:
            own_results(gm.graph, len(context.fw_metadata.output_info))  # type: ignore[union-attr]  # made before the graph
        gm.recompile()
        result: Any = compile_fx_inner(gm, inputs, **options)
        results["backward" if backward else "forward"] = getattr(result, "current_callable", None) or result
        return result

    module = graph if isinstance(graph, fx.GraphModule) else fx.GraphModule({}, _copy(graph))
    with tracing(context):
        compile_fx(module, list(fakes), inner_compile=inner)
    if "forward" not in results:
        raise CannotCompile("nothing is left of it")
    return results


def _copy(graph: fx.Graph) -> fx.Graph:
    copied = fx.Graph()
    outputs = copied.graph_copy(graph, {})
    copied.output(outputs)
    return copied


def _refuse(metadata: Any, results: dict[str, Boxed], training: bool) -> None:
    """Refuse what needs the compiler's own wrapper around the generated functions."""
    kinds = {info.output_type.name for info in metadata.output_info}
    if kinds - {"non_alias", "unsafe_view_alias", "custom_function_view"}:
        raise CannotCompile(f"results share memory ({', '.join(sorted(kinds))})")
    if metadata.num_intermediate_bases or metadata.tokens or metadata.num_graphsafe_rng_states:
        raise CannotCompile("it has effects")
    if metadata.mutated_inp_runtime_indices:
        raise CannotCompile("it changes operands in a way that the compiler leaves to its caller")
    if training and "backward" not in results:
        raise CannotCompile("it has no gradients")


def _outputs(graph: fx.Graph, fakes: Sequence[Any], mode: FakeTensorMode) -> tuple[torch.Tensor, ...]:
    """Return the results of a region on abstract values."""
    with mode, torch.enable_grad():
        return tuple(fx.Interpreter(fx.GraphModule({}, _copy(graph))).run(*fakes))


def _fixed_shape(output: torch.Tensor) -> tuple[int, ...] | None:
    return tuple(output.shape) if all(isinstance(size, int) for size in output.shape) else None


def _reaches(outputs: Sequence[torch.Tensor], fakes: Sequence[Any]) -> tuple[frozenset[int], ...]:
    """For each output, which inputs its gradient flows to, as autograd says."""
    leaves = {id(fake): index for index, fake in enumerate(fakes) if isinstance(fake, torch.Tensor)}
    known: dict[Any, frozenset[int]] = {}
    return tuple(_leaves(output.grad_fn, leaves, known) for output in outputs)


def _leaves(node: Any, leaves: dict[int, int], known: dict[Any, frozenset[int]]) -> frozenset[int]:
    todo = [node] if node is not None else []
    while todo:
        current = todo[-1]
        following = [inner for inner, _ in current.next_functions if inner is not None]
        waiting = [inner for inner in following if inner not in known]
        if waiting:
            todo += waiting
            continue
        own = {leaves[id(current.variable)]} if hasattr(current, "variable") and id(current.variable) in leaves else set()
        known[current] = frozenset(own).union(*(known[inner] for inner in following))
        todo.pop()
    return known[node] if node is not None else frozenset()


# -- the check of the arguments ----------------------------------------------------------------------------------------------


def _described(fakes: Sequence[Any]) -> _CheckWriter:
    """Return the sizes and strides of arguments; their symbols get their values there."""
    from torch.utils._sympy.printers import PythonPrinter

    writer = _CheckWriter(PythonPrinter())
    for index, fake in enumerate(fakes):
        if isinstance(fake, torch.Tensor):
            writer.tensor(f"a{index}", fake)
        else:
            writer.bind(fake, f"a{index}")
    return writer


def _check(writer: _CheckWriter, env: ShapeEnv) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return what must hold for arguments so that the generated functions are right for them."""
    from torch._C._dynamo.guards import assert_size_stride

    for symbol in list(writer.bound):
        writer.range(symbol, env)
    for guard in env.guards:
        writer.condition(guard.expr)
    return tuple(dict.fromkeys(writer.lines)), {"assert_size_stride": assert_size_stride, "math": math}


class _CheckWriter:
    """Writes a check as Python."""

    def __init__(self, printer: Any) -> None:
        self.lines: list[str] = []
        self.bound: dict[sympy.Symbol, str] = {}
        self._printer = printer

    def bind(self, value: Any, text: str) -> str:
        """Return the expression of a size; a symbol that is new takes its value from the text."""
        expr = value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)
        if isinstance(expr, sympy.Symbol) and expr not in self.bound:
            self.bound[expr] = str(expr)
            self.lines.append(f"{expr} = {text}")
        return str(self._printer.doprint(expr))

    def tensor(self, name: str, fake: torch.Tensor) -> None:
        sizes = [self.bind(size, f"{name}.size({dim})") for dim, size in enumerate(fake.shape)]
        strides = [self.bind(stride, f"{name}.stride({dim})") for dim, stride in enumerate(fake.stride())]
        self.lines.append(f"assert_size_stride({name}, {tuple_text(sizes)}, {tuple_text(strides)})")
        if sizes:  # to torch all tensors without entries are of the same sizes
            self.lines.append(f"if not {name}.numel() and {name}.shape != {tuple_text(sizes)}: raise AssertionError")

    def range(self, symbol: sympy.Symbol, env: ShapeEnv) -> None:
        bounds = env.var_to_range.get(symbol)
        if bounds is None:
            return
        if bounds.lower.is_Integer:
            self.condition(symbol >= bounds.lower)
        if bounds.upper.is_Integer and bounds.upper < 2**62:
            self.condition(symbol <= bounds.upper)

    def condition(self, expr: Any) -> None:
        if expr is sympy.true or not expr.free_symbols:
            return
        if not expr.free_symbols <= self.bound.keys():
            raise CannotCompile(f"it relies on {expr}, which its operands do not tell")
        self.lines.append(f"if not ({self._printer.doprint(expr)}): raise AssertionError")
