"""The public functions: argument checks, then the machinery."""

from __future__ import annotations

import contextlib
import functools
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, overload

import torch

from dy2st import config, exporting
from dy2st.capture.environment import users_code
from dy2st.capture.unconverted import learned
from dy2st.errors import SignatureError
from dy2st.exporting.verification import ExportOptions
from dy2st.frames import plainly
from dy2st.input_spec import Specs, checked_specs
from dy2st.options import Options
from dy2st.saving import writing
from dy2st.static.making import make_static
from dy2st.static.static_function import StaticFunction
from dy2st_runtime import module
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.passes.application import Pass
from dy2st_runtime.primitives import island_kinds

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound=torch.nn.Module)


@overload
def to_static(  # type: ignore[overload-overlap]  # a module is callable, and comes back as a module
    function: _M,
    *,
    input_spec: Specs | None = ...,
    full_graph: bool = ...,
    backend: str | None = ...,
    passes: Sequence[Pass] = ...,
    unroll: bool | int | None = ...,
    loop_checkpoints: int | None = ...,
    uniform: str | None = ...,
) -> _M: ...
@overload
def to_static(
    function: Callable[..., Any],
    *,
    input_spec: Specs | None = ...,
    full_graph: bool = ...,
    backend: str | None = ...,
    passes: Sequence[Pass] = ...,
    unroll: bool | int | None = ...,
    loop_checkpoints: int | None = ...,
    uniform: str | None = ...,
) -> StaticFunction: ...
@overload
def to_static(
    function: None = None,
    *,
    input_spec: Specs | None = ...,
    full_graph: bool = ...,
    backend: str | None = ...,
    passes: Sequence[Pass] = ...,
    unroll: bool | int | None = ...,
    loop_checkpoints: int | None = ...,
    uniform: str | None = ...,
) -> Callable[[Any], Any]: ...
@plainly
def to_static(
    function: Any = None,
    *,
    input_spec: Specs | None = None,
    full_graph: bool = True,
    backend: str | None = None,
    passes: Sequence[Pass] = (),
    unroll: bool | int | None = None,
    loop_checkpoints: int | None = None,
    uniform: str | None = None,
) -> Any:
    """Make a function, method or module run as programs.

    Args:
        function: a Python function, a bound method, an ``nn.Module`` (its ``forward`` becomes static, and the module itself is
            returned), or a ``forward`` inside a class body. Left out, a decorator is returned.
        input_spec: one entry for each parameter, in order or by name: an :class:`InputSpec` for a tensor, the same nest of them for
            a nest of tensors, a constant for anything else. ``int``, ``float`` and ``bool`` stand for a Python number: what is
            saved or exported takes any, and calls in this process have a program for each.
        full_graph: ``True`` to capture the whole function or raise an error. With ``False``, calls that cannot be captured run as
            the function is written, by signature; a warning says so once for each reason, and ``.report()`` counts them.
        backend: the executor that runs the programs, by name; ``None`` for the default, see
            :func:`dy2st_runtime.executors.choose`.
        passes: functions from a program to a program, applied in order to each program that is captured; see :func:`rewrite` and
            :mod:`dy2st_runtime.passes`.
        unroll: what becomes of a ``for`` statement over a ``range`` of known length, or over a tensor: ``True`` writes every
            iteration out, ``False`` captures a loop where the body allows it, a number does so for more iterations than that;
            ``None`` stands for :data:`~dy2st.config.UNROLL`, and for fewer where the iterations do much. A list that such a loop
            appends to has a length that is known only at run time.
        loop_checkpoints: see :class:`checkpointed`, for all loops of the function that allow it.
        uniform: what becomes of a branch or loop in which several processes work together, and whose condition each decides for
            itself: ``None`` warns at capture, ``"error"`` raises then, ``"check"`` has the processes compare the condition at each
            call and raise together, ``"auto"`` has all of them take a way that one of them takes.

    Returns:
        A :class:`~dy2st.StaticFunction`, or the module.

    Raises:
        SignatureError: the arguments make no sense together.
        BackendError: there is no such executor.
        DivergenceError: processes may part ways, which ``uniform`` does not allow, or cannot cure.
        ConversionError: the function has no source, or is written with something that has no static meaning, and ``full_graph``.

    Example:
        >>> @to_static
        ... def relu_or_double(x):
        ...     if x.sum() > 0:
        ...         return x * 2
        ...     return x.relu()
        >>> relu_or_double(torch.tensor([1.0, 2.0])), relu_or_double(torch.tensor([1.0, -2.0]))
        (tensor([2., 4.]), tensor([1., 0.]))
    """
    options = Options(input_spec, full_graph, backend, passes, unroll, loop_checkpoints, uniform)
    make = plainly(functools.partial(make_static, options=options))
    return make if function is None else make(function)


@overload
def not_to_static(function: _F, *, returns: Any = ...) -> _F: ...
@overload
def not_to_static(function: None = ..., *, returns: Any = ...) -> Callable[[_F], _F]: ...
def not_to_static(function: _F | None = None, *, returns: Any = learned.LEARNED) -> Any:
    """Run a function as Python where a static function calls it: at each call, with real tensors, and any code in it.

    The program calls it where it stands, in branches and loops too, and gradients flow through it. What it gives is declared, or
    learned: a call that meets it for the first time runs in eager. Each result is compared with that. A function whose code does
    nothing but operations on tensors is recorded instead, operation by operation. See the guide on islands.

    Args:
        function: a Python function.
        returns: what it gives: an :class:`InputSpec`, ``int``, ``float``, ``bool``, ``str``, ``None``, or these in tuples, lists,
            dicts and dataclasses.

    Returns:
        The same function, marked; without a function, a decorator.

    Raises:
        SignatureError: ``returns`` is no declaration.

    Example:
        >>> import statistics
        >>> @not_to_static(returns=float)
        ... def median(x):
        ...     return statistics.median(x.tolist())
        >>> to_static(lambda x: x - median(x) if x.sum() > 0 else x)(torch.tensor([1.0, 2.0, 9.0]))
        tensor([-1.,  0.,  7.])
    """
    mark = island_kinds.Mark(None if returns is learned.LEARNED else learned.declared(returns))
    if function is None:
        return functools.partial(learned.marked, mark=mark)
    return learned.marked(function, mark)


def ignore_module(modules: types.ModuleType | Sequence[types.ModuleType]) -> None:
    """Call the functions of some Python modules as they are written.

    Args:
        modules: modules (packages with all they contain).

    Example:
        >>> import colorsys
        >>> ignore_module(colorsys)
    """
    for ignored in modules if isinstance(modules, (list, tuple)) else [modules]:
        if not isinstance(ignored, types.ModuleType):
            raise SignatureError(f"ignore_module takes Python modules, not a {type(ignored).__name__}")
        users_code.SKIPPED_PACKAGES.add(ignored.__name__)


class _Switch(contextlib.AbstractContextManager["_Switch"]):
    """What :func:`enable_to_static` returns: the setting is made at once, and undone at the end of a ``with`` block."""

    def __init__(self, before: bool) -> None:
        self.before = before

    def __exit__(self, *exc: object) -> None:
        config.set_enabled(self.before)


def enable_to_static(enable: bool = True) -> _Switch:
    """Switch static execution on or off for the whole process.

    Args:
        enable: ``False`` runs every static function as it is written.

    Returns:
        Usable in a ``with`` statement, at whose end the setting is undone.

    Example:
        >>> double = to_static(lambda x: x * 2)
        >>> with enable_to_static(False):
        ...     double(torch.ones(1))
        tensor([2.])
        >>> len(double.program_cache)
        0
    """
    if not isinstance(enable, bool):
        raise SignatureError(f"enable_to_static takes True or False, not {enable!r}")
    switch = _Switch(config.is_enabled())
    config.set_enabled(enable)
    return switch


def save(
    layer: Any,
    path: str | os.PathLike[str],
    input_spec: Specs | None = None,
    *,
    methods: Mapping[str, Specs | None] | None = None,
    example_inputs: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    about: Mapping[str, str] | None = None,
) -> None:
    """Write a model as one archive that loads and runs without its source.

    A module is captured in the mode that it is in, with the flags of its submodules as they are, and then in the other mode, for
    which its ``train()`` is called; afterwards every flag is what it was. If it cannot be captured in that other mode, a warning
    says so, and the loaded model has one mode only (``loaded.modes``). Values that are read but never written by the model
    (``self.scale = 2``, globals) are part of the program; attributes that it writes and reads go on from what they are now.

    Args:
        layer: an ``nn.Module``, a function or a method; static or not.
        path: the file to write; an existing one is replaced only when the new one is complete.
        input_spec: as for :func:`to_static`; left out, the one given there, or else the arguments of the calls so far if they are
            all alike. Tensors may stand in for specifications.
        methods: several methods of a module instead of its ``forward`` alone, each with its ``input_spec``. They share parameters,
            buffers and attributes, which are stored once; the loaded model has methods of the same names.
        example_inputs: arguments to keep in the archive as an example: those of ``forward``, or by method those of each.
        about: texts to keep in the archive; the documentation of the module and its methods is there anyway.

    Raises:
        SaveError: something in the program only exists in this process, an attribute is of another type after a call than before
            it, or the file cannot be written.
        SignatureError: it is not known for which arguments to save.
        CaptureError: the function cannot be captured.

    Example:
        >>> save(torch.nn.Linear(8, 2), "model.dy2st", input_spec=[InputSpec([None, 8])])
        >>> load("model.dy2st")(torch.zeros(3, 8)).shape
        torch.Size([3, 2])
    """
    if methods is not None and not isinstance(methods, Mapping):
        raise SignatureError(f"methods gives the specifications by the name of the method, not as a {type(methods).__name__}")
    specs = None if methods is None else {name: checked_specs(entry) for name, entry in methods.items()}
    writing.save(layer, path, checked_specs(input_spec), specs, _examples(example_inputs), _checked_about(about))


def _examples(given: Any) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    by_method = given if isinstance(given, Mapping) else {} if given is None else {"forward": given}
    for args in by_method.values():
        if not isinstance(args, (list, tuple)):
            raise SignatureError(f"example_inputs is a sequence of arguments, not a {type(args).__name__}")
    return {name: (tuple(args), {}) for name, args in by_method.items()}


def _checked_about(about: Any) -> Mapping[str, str]:
    texts = {} if about is None else about
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for entry in texts.items() for text in entry):
        raise SignatureError("about gives texts by name")
    return texts


@plainly
def export(
    layer: Any,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    inputs: Sequence[Any] | None = None,
    verify: bool = True,
    input_spec: Specs | None = None,
    max_growth: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    opset: int | None = None,
    method: str = "forward",
) -> exporting.ExportReport:
    """Write a model in the format of another tool, and check that the file does what the model does.

    The model is exported in evaluation mode. The file is run and compared on calls that take both directions of each branch and
    different numbers of loop iterations, as far as such calls are found; if it differs, nothing is left at ``path``.

    Args:
        layer: an ``nn.Module``, a function or a method, static or not; or the path of an archive, or a loaded one.
        path: the file to write; an existing one is replaced only when the new one is complete and right.
        format: ``"pt2"`` for ``torch.export.load``, ``"onnx"``, or ``"aoti"`` for a package of AOTInductor; from the name of the
            file if left out, where ``.pt2`` means the first.
        inputs: calls to verify with, one tuple of arguments (or dict of keyword arguments) each; made up if left out.
        verify: whether to run the file and compare.
        input_spec: as for :func:`save`.
        max_growth: by how many entries a tensor or list may grow in a loop whose number of iterations is not bounded. The file
        fails
            where it would grow further.
        rtol: how far results may be off, as a part of the value; by dtype if left out.
        atol: how far results may be off beside that; by dtype if left out.
        opset: of ONNX; the exporter's choice if left out.
        method: which method of an archive to export.

    Returns:
        What was done: calls compared, largest difference, what the file does otherwise than the model.

    Raises:
        ExportError: the format cannot hold the program, with your line; or the file does not do the same.
        SignatureError: it is not known for which arguments to export, or which format is meant.
        CaptureError: the function cannot be captured.

    Example:
        >>> report = export(torch.nn.Linear(8, 2), "model.pt2", input_spec=[InputSpec([None, 8])])
        >>> report.verified > 0
        True
    """
    options = ExportOptions(inputs, verify, max_growth, rtol, atol, opset, method)
    return exporting.export(layer, path, format, checked_specs(input_spec), options)


def save_inference_model(
    path: str | os.PathLike[str],
    layer: Any,
    fetch: Sequence[int | str] | None = None,
    input_spec: Specs | None = None,
) -> None:
    """Write what inference needs of a model, and nothing else.

    The archive holds the program for evaluation. What only other results need is gone, be it random or able to fail: arguments,
    parameters, branches and loops. What has an effect (``print``, ``assert``, state) stays. What parameters and constants alone
    decide is computed: the parameters are final.

    Args:
        path: the file to write, as for :func:`save`.
        layer: an ``nn.Module``, a function or a method; static or not.
        fetch: the results to keep: positions in a tuple or list, keys of a dict, fields, or paths of these (``"heads.0"``). The
            loaded model returns a tuple of them. Left out, it returns what the model returns.
        input_spec: as for :func:`save`.

    Raises:
        SaveError: there is no such result; and as for :func:`save`.

    Example:
        >>> def heads(x):
        ...     return {"scores": x.relu(), "hidden": x}
        >>> save_inference_model("scores.dy2st", heads, fetch=["scores"], input_spec=[InputSpec([2])])
        >>> load("scores.dy2st")(torch.tensor([-1.0, 1.0]))
        (tensor([0., 1.]),)
    """
    if fetch is not None and (isinstance(fetch, str) or not all(type(item) in (int, str) for item in fetch) or not fetch):
        raise SignatureError(f"fetch is a list of positions and names, not {fetch!r}")
    writing.save_inference_model(path, layer, fetch, checked_specs(input_spec))


def trace(layer: Any, inputs: Sequence[Any]) -> LoadedModule:
    """Record what a model does with some inputs, for models with no flow that depends on data.

    Args:
        layer: an ``nn.Module``, a function or a method; static or not.
        inputs: its arguments; sizes, dtypes and all that is no tensor are those of every later call.

    Returns:
        A module that does the same without the source of the model, with the parameters of the model itself; ``.save(path)``
        writes it.

    Raises:
        SaveError: a branch or loop of the model depends on the data, or what :func:`save` refuses.

    Example:
        >>> traced = trace(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
        >>> traced(torch.zeros(1, 4)).shape
        torch.Size([1, 2])
    """
    if not isinstance(inputs, (list, tuple)):
        raise SignatureError(f"inputs is a sequence of arguments, not a {type(inputs).__name__}")
    return writing.traced(layer, inputs)


def load(
    path: str | os.PathLike[str], *, namespaces: Collection[str] = (), backend: str | None = None, max_steps: int | None = None
) -> LoadedModule:
    """Read an archive.

    Args:
        path: a file that :func:`save` wrote.
        namespaces: namespaces of operators, besides PyTorch's own, that the model may call (``["torchvision"]``).
        backend: the executor that runs its programs, as for :func:`to_static`.
        max_steps: how many iterations the loops of one call may make, all together; ``None`` for any number. A call that makes more
            raises :class:`StepLimitError`.

    Returns:
        An ``nn.Module`` with the ``state_dict`` keys of the original; it runs, trains on, and needs none of its source.

    Raises:
        LoadError: it is no archive, was damaged, or was written by a newer major version.
        BackendError: there is no such executor.
        FileNotFoundError: there is no such file.

    Example:
        >>> save(torch.nn.Linear(8, 2), "model.dy2st", input_spec=[InputSpec([None, 8])])
        >>> model = load("model.dy2st", max_steps=1000)
        >>> sorted(model.state_dict())
        ['bias', 'weight']
    """
    return module.load(path, namespaces=namespaces, backend=backend, max_steps=max_steps)
