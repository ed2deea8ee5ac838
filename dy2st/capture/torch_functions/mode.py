"""The torch-function mode of a capture: calls of torch that never reach the dispatcher, or that ask Python for a tensor's value.

Grad mode and autocast become operations of the program; hooks are attached when it runs; a truth value, a number or an
array asked of a tensor by code that was not converted is an error that names the caller.
"""

from __future__ import annotations

import functools
import inspect
import operator as python
import sys
from typing import Any, NoReturn, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_any, tree_leaves

from dy2st.capture.environment import written_out
from dy2st.capture.recording import failing
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import backward, classes, differentiation, indexing, replacements, tensor_data
from dy2st.capture.torch_functions.data_dependence import data_dependent, internal
from dy2st.capture.torch_functions.names import as_torch_names
from dy2st.capture.torch_functions.registry import HANDLERS, Handler, handles_torch
from dy2st.capture.types import lattice, tensor_traits, value_types
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, OfEachCall
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control, scalars


class TorchFunctions(PreDispatchTorchFunctionMode):
    """Sends the calls that need it to their handlers. ``torch.autocast`` tells modes of this class, and no others, what it does."""

    def __init__(self, session: Session) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # the tracer is only used by the methods that are replaced here
        self.session = session

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return one call of torch."""
        kwargs = dict(kwargs or {})
        kinds = classes.asked(self.session, func, args, kwargs, types)
        if kinds:
            return classes.call(self.session, kinds, func, args, kwargs, lambda: self._plainly(func, types, args, kwargs))
        return self._plainly(func, types, args, kwargs)

    def _plainly(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not self.session.traits.has_classes:
            return self._handled(func, types, args, kwargs)
        with classes.hidden(args, kwargs):
            return self._handled(func, types, args, kwargs)

    def _handled(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        is_leaf = kwargs.pop("requires_grad", None) is True and func is not torch.Tensor.requires_grad_
        handler = HANDLERS.get(func)
        if handler is not None:
            args, kwargs = as_torch_names(func, args, kwargs)
        if NestedTensor in types:
            raise CaptureError(
                "a nested tensor cannot be captured", self.session.here(), fix="pad to one length: to_padded_tensor()"
            )
        _check_device(func, args, kwargs)
        replacements.used(self.session, func)
        args = tuple(map(self._asked, args))
        _tell_numbers_apart(self.session, args, kwargs)
        result = func(*args, **kwargs) if handler is None else handler(self.session, func, args, kwargs)
        return _requires_grad(self.session, torch.Tensor.requires_grad_, (result,), {}) if is_leaf else result

    def _asked(self, value: Any) -> Any:
        if isinstance(value, OfEachCall):
            value.fail()
        return self.session.outside.asked(value) if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) else value


def _tell_numbers_apart(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Note that a number goes where the dtype of the result depends on what it is.

    Raises:
        NeedsApart: it may be an int on one path and a float on another.
    """
    if tensor_traits.NUMBER in session.traits.apart or not lattice.has_mixed_numbers() or kwargs.get("dtype") is not None:
        return
    parts = tree_leaves((args, kwargs))
    floats = any(isinstance(part, torch.Tensor) and (part.is_floating_point() or part.is_complex()) for part in parts)
    if not floats and any(isinstance(part, torch.SymFloat) for part in parts):
        raise NeedsApart(tensor_traits.NUMBER)


def _check_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what torch raises for a device that is not there; abstract values would be on it all the same."""
    asked = [kwargs.get("device"), *(args[1:2] if func is torch.Tensor.to else ())]
    asked += ["cuda"] if func is torch.Tensor.cuda else []
    for device in asked:
        if isinstance(device, (str, torch.device)) and str(device).startswith("cuda") and not torch.cuda.is_available():
            with _disable_current_modes():
                torch.empty(0, device=device)


@handles_torch(torch._C._set_grad_enabled)
def _set_grad_enabled(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session.builder.call(func, args).meta["leaves"] = session.position.leaves_grad_mode()
    return func(*args, **kwargs)


@handles_torch(torch.nn.init.uniform_, torch.nn.init.normal_, torch.nn.init.constant_, torch.nn.init.kaiming_uniform_)
def _initialize(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """They switch gradients off where this mode does not see it."""
    before = torch.is_grad_enabled()
    session.builder.call(torch._C._set_grad_enabled, (False,))
    try:
        return func(*args, **kwargs)
    finally:
        session.builder.call(torch._C._set_grad_enabled, (before,))


@handles_torch(torch.amp.autocast_mode._enter_autocast)
def _enter_autocast(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session.open_autocasts.append(session.builder.call(func, args, kwargs))


@handles_torch(torch.amp.autocast_mode._exit_autocast)
def _exit_autocast(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session.builder.call_raw(func, (session.open_autocasts.pop(),))


@handles_torch(
    torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__, torch.Tensor.__complex__,
    torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.data_ptr,
)  # fmt: skip
def _value_asked(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
    tensor = args[0]
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    if func is torch.Tensor.__index__ and not (
        is_whole and all(isinstance(size, torch.SymInt) or size == 1 for size in tensor.shape)
    ):
        error = TypeError("only integer tensors of a single element can be converted to an index")
        session.in_flight.raised.append(error)
        raise error
    raise data_dependent(session, f"Tensor.{getattr(func, '__name__', func)}()")


@handles_torch(torch.Tensor.stride, torch.Tensor.is_contiguous)
def _layout(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if session.position.asked_by_user_code():
        session.traits.asks_strides = True
    return func(*args, **kwargs)


@handles_torch(torch.Tensor.item)
def _item(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args[0].is_complex():
        return session.call(complex, args[0])
    return func(*args, **kwargs)


@handles_torch(torch.Tensor.tolist)
def _tolist(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    if tensor.dim() == 0:
        return session.call(complex, tensor) if tensor.is_complex() else tensor.item()
    if not isinstance(tensor.shape[0], int):
        raise CaptureError(
            "tolist() of a tensor whose length is known only at run time", session.here(), fix="keep working on the tensor"
        )
    return [row.tolist() for row in tensor.unbind(0)]


@handles_torch(torch.Tensor.retain_grad)
def _retain_grad(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    session.builder.call(control.call_, (func, tuple(args), kwargs))
    backward.keep(session, args[0])


@handles_torch(torch.Tensor.requires_grad_)
def _requires_grad(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, on = args[0], (args[1] if len(args) > 1 else kwargs.get("requires_grad", True))
    session.builder.call(torch.ops.aten.requires_grad_.default, (tensor, on))
    abstract = session.outside.adopted(tensor)
    if abstract.requires_grad is not on:
        tensor_traits.changed_in_place(session, abstract)
        session.gradients.is_switched |= isinstance(on, torch.SymBool) or session.builder.is_operand(abstract)
    func(abstract, *args[1:], **kwargs)
    if on and tensor is abstract and abstract.is_leaf:
        backward.keep(session, tensor)
    return tensor


def _trait(name: str) -> Handler:
    def handle(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        if not tensor_traits.mixed(tensor) or not session.position.asked_by_user_code() or internal(_asker()):
            return func(*args, **kwargs)
        return tensor_traits.read(session, tensor, name)

    return handle


def _asker() -> str:
    """Return the file of the code that made the call of torch that is handled now."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_name != "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    return cast(str, (frame.f_back or frame).f_code.co_filename)


for _name in tensor_traits.OF_AUTOGRAD:
    handles_torch(getattr(torch.Tensor, _name).__get__)(_trait(_name))


@handles_torch(torch.Tensor.resolve_conj, torch.Tensor.resolve_neg, torch.resolve_conj, torch.resolve_neg)
def _resolve(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Look at the abstract value, and whether the tensor is a conjugate may differ from way to way."""
    return _operand_or_copy(session, getattr(torch.ops.aten, func.__name__).default, func, args, kwargs, {})


def _operand_or_copy(session: Session, operator: Any, func: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
    """Return the result of an operation that gives its operand itself where there is nothing to do, which only the call knows.

    It matters where eager tells the two apart: then the result is one of them.
    """
    (operand,) = args[:1]
    with quiet():
        result = func(*args, **kwargs)
        result = result.view_as(result) if result is operand else result
    session.builder.call(operator, (operand,), options, result)
    tensor_traits.note_operand(result, operand)
    differing = tensor_traits.differing(operand, result)
    if not differing & session.traits.apart:
        tensor_traits.mark(result, differing)
        session.traits.has_mixed = session.traits.has_mixed or bool(differing)
        return result
    same = session.number(python.is_, (result, operand), "bool")
    return session.new_union(session.number(scalars.where, (same, 0, 1), "int"), {0: operand, 1: result})


_DATA, _GRAD = cast(Any, torch.Tensor.data), cast(Any, torch.Tensor.grad)
handles_torch(_DATA.__get__)(tensor_data.get)
handles_torch(_DATA.__set__)(tensor_data.put)


@handles_torch(cast(Any, torch.Tensor.requires_grad).__set__)
def _set_requires_grad(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    _requires_grad(session, torch.Tensor.requires_grad_, args, kwargs)


@handles_torch(_GRAD.__set__)
def _set_gradient(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    backward.put(session, *args)


@handles_torch(_GRAD.__get__)
def _gradient(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return backward.get(session, args[0])


handles_torch(torch.Tensor.backward)(backward.method)
handles_torch(torch.autograd.backward)(backward.function)


@handles_torch(torch.equal, torch.Tensor.equal)
def _equal(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    a, b = (*args, *kwargs.values())[:2]
    if a.dim() != b.dim() or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape)):
        return False
    return session.call(written_out.equal, a, b)


@handles_torch(torch.allclose, torch.Tensor.allclose)
def _allclose(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return session.call(torch.isclose, *args, **kwargs).all().item()


@handles_torch(torch.nn.functional.one_hot)
def _one_hot(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return ``one_hot``, whose number of classes torch takes from no symbol, and finds in no abstract tensor."""
    given = {**dict(zip(("input", "num_classes"), args)), **kwargs}
    indices, number = given.get("input"), given.get("num_classes", -1)
    if not isinstance(indices, torch.Tensor) or indices.dtype is not torch.int64 or (type(number) is int and number != -1):
        return func(*args, **kwargs)
    if isinstance(number, torch.Tensor) and number.dim() == 0 and not number.is_floating_point():
        number = session.to_number(number)
    if not isinstance(number, (int, torch.SymInt)):
        return func(*args, **kwargs)
    operation = torch.ops.aten.one_hot.default
    indices = session.outside.adopted(indices)
    sizes = (*map(value_types.size_of, indices.shape), value_types.DYNAMIC)
    with quiet():
        result = session.fakes.tensor(value_types.TensorType(torch.int64, indices.device, sizes, None, False))
    failing.refuse_if_named(session, RuntimeError(), "one_hot", "test the indices with an if statement")
    session.builder.call(operation, (indices, number), {}, result)
    return result


@handles_torch(torch.is_nonzero, torch.Tensor.is_nonzero)
def _is_nonzero(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return (args[0] != 0).item()


@handles_torch(torch.autograd.grad)
def _grad(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return differentiation.grad(session, args, kwargs)


@handles_torch(torch.nn.functional.batch_norm)
def _batch_norm(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return its momentum is a number of the program where it is one over the number of batches."""
    given = inspect.signature(func).bind(*args, **kwargs)
    given.apply_defaults()
    image, mean, variance, weight, bias, training, momentum, eps = given.args
    if not isinstance(momentum, torch.SymFloat):
        return func(*args, **kwargs)
    image, mean, variance, weight, bias = map(session.outside.adopted, (image, mean, variance, weight, bias))
    with quiet():
        result = func(image, mean, variance, weight, bias, training, 0.5, eps)
    cudnn = torch.backends.cudnn.enabled
    operands = (image, weight, bias, mean, variance, training, momentum, eps, cudnn)
    session.builder.call(torch.ops.aten.batch_norm.default, operands, {}, result)
    return result


@handles_torch(torch.Tensor.__getitem__)
def _getitem(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if "vmap" in session.transforms:
        return indexing.get_item_of_batch(session.position, args[0], args[1], func)
    return indexing.get_item(session.position, args[0], args[1], func)


@handles_torch(torch.Tensor.__setitem__)
def _setitem(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    indexing.set_item(session.position, args[0], args[1], args[2], func)


@handles_torch(torch.Tensor.contiguous)
def _contiguous(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return Python's method looks at the abstract value's strides, and those of the tensor may differ from call to call."""
    form = kwargs.get("memory_format", args[1] if len(args) > 1 else torch.contiguous_format)
    return _operand_or_copy(session, torch.ops.aten.contiguous.default, func, args, kwargs, {"memory_format": form})


@handles_torch(torch.Tensor.__contains__)
def _contains(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
    raise data_dependent(session, "'in' a tensor")


@handles_torch(torch.Tensor.__iter__)
def _iter(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args[0].dim() and not isinstance(args[0].shape[0], int):
        raise CaptureError(
            "this iterates over a tensor whose length is known only at run time, outside of a for statement",
            session.here(),
            fix="write a for loop in converted code, or a tensor operation",
        )
    return iter(args[0].unbind(0)) if args[0].dim() else func(*args)


@handles_torch(torch.tensor, torch.as_tensor, torch.asarray)
def _tensor(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data = args[0] if args else kwargs["data"]
    if not tree_any(lambda leaf: isinstance(leaf, (torch.Tensor, *SYMBOLIC_NUMBERS)), data):
        return func(*args, **kwargs)
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    result = _stack(data, dtype)
    if isinstance(data, torch.Tensor) and func is torch.tensor:
        result = result.detach().clone()
    result = result if dtype is None and device is None else result.to(device=device, dtype=dtype)
    return result.requires_grad_() if kwargs.get("requires_grad") else result


@handles_torch(torch.Tensor.new_tensor)
def _new_tensor(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    like, *rest = args
    return _tensor(session, torch.tensor, tuple(rest), {"dtype": like.dtype, "device": like.device, **kwargs})


def _stack(data: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """Return what ``torch.tensor`` makes of nested numbers, some of them symbolic, of a dtype or one that holds them all.

    Integers of few bits take few numbers: these tensors are made of a number, and not of another tensor.
    """
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, (list, tuple)):
        parts = [_stack(item, dtype).detach() for item in data]
        common = functools.reduce(torch.promote_types, (part.dtype for part in parts))
        return torch.stack([part.to(common) for part in parts])
    kinds = {torch.SymInt: torch.int64, torch.SymBool: torch.bool, torch.SymFloat: torch.get_default_dtype()}
    is_whole = dtype is not None and not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return torch.scalar_tensor(data, dtype=dtype if is_whole else kinds[type(data)]) if type(data) in kinds else torch.tensor(data)
