"""Tensors of classes that the user writes: their methods, what ``__torch_function__`` says, and of which class results are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dy2st

X = torch.arange(3.0)


class Base(torch.Tensor):
    def doubled(self):
        return self * 2 if self.sum() > 0 else self - 1


class Derived(Base):
    pass


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale=2.0):
        return torch.Tensor.as_subclass(torch.as_tensor(data), cls)

    def __init__(self, data, scale=2.0):
        self.scale = scale

    def scaled(self):
        return self * self.scale

    def add(self, other):
        return torch.Tensor.add(self, other) * (10 if other > 0 else 1)

    def __add__(self, other):
        return self.add(other)

    @property
    def half(self):
        return self / 2

    @classmethod
    def zero(cls, size):
        return cls(torch.zeros(size))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.Tensor.mul and isinstance(result, Scaled):
            result.scale = 7.0
        return result


class Tagged(torch.Tensor):
    def __new__(cls, data, tag):
        result = super().__new__(cls, data)
        result.tag = tag
        return result

    def __repr__(self):
        return f"{self.tag}: {self.as_subclass(torch.Tensor)}"


class Without(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Saying(torch.Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        if func is torch.Tensor.sub:
            return "a difference"
        if func is torch.Tensor.matmul:
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})


def described(value):
    if isinstance(value, torch.Tensor):
        attributes = {name: getattr(value, name, None) for name in ("scale", "tag")}
        plain = value.as_subclass(torch.Tensor)
        return type(value), plain.tolist(), plain.requires_grad, attributes
    if isinstance(value, (list, tuple)):
        return type(value), [described(part) for part in value]
    return value


def outcome(function, args):
    Saying.calls.clear()
    try:
        result = described(function(*args))
    except Exception as error:
        result = type(error), str(error)
    return result, [*Saying.calls]


def agree(program, *calls, programs=1):
    static = dy2st.to_static(program)
    for args in calls:
        for _ in range(2):
            expected = outcome(program, args)
            assert outcome(static, args) == expected
    assert len(static.program_cache) == programs
    return static


def methods(x):
    s = Scaled(x)
    return s.scaled(), s.scaled().scale, s.half, s + 1, s - 1, Scaled.zero(2), s.scale


def made(x):
    given = x.clone().requires_grad_()
    return (
        Base([1.0, 2.0]), Base(2, 3).shape, Derived(x).as_subclass(Base), Base(given), Tagged(given, "a"), Tagged(x, "b").tag,
        torch.Tensor._make_subclass(Base, x, True), torch.Tensor._make_subclass(Base, given),
    )  # fmt: skip


def results(x):
    s = x.as_subclass(Base)
    functions = F.softmax(s, 0), F.linear(s, torch.ones(2, 3)), torch.sum(s), torch.stack([s, s]), torch.where(s > 0, s, 0)
    parts = s[0], s.unbind(), s.max(0), s.view(3, 1), s.new_zeros(2), torch.einsum("i,i->", s, s), [row * 2 for row in s]
    return functions, parts, s.shape, s.tolist(), s.sum().item(), s.dtype, s == x, -s, 2 - s, s @ s, bool((s >= 0).all())


def several(x):
    b, d = x.as_subclass(Base), x.as_subclass(Derived)
    return type(b + d), type(d + b), d * x, x * d, b - x.as_subclass(Without), isinstance(d, Base), isinstance(b, Derived)


def said(x):
    s = x.as_subclass(Saying)
    return s + 1, s - 1, type(s * 2), s.shape, torch.cat([s, s]), s.as_subclass(torch.Tensor) - 1


def not_said(x):
    return x.as_subclass(Saying) @ x.as_subclass(Saying)


def off(x):
    s = x.as_subclass(Saying)
    with torch._C.DisableTorchFunctionSubclass():
        t = s * 2
    return t, type(t)


def in_place(x):
    s = x.clone().as_subclass(Base)
    s += 1
    s[0] = 9
    return s.add_(1), s.as_subclass(torch.Tensor)


@pytest.mark.parametrize("program", [methods, made, results, several, said, not_said, off, in_place])
def test_tensors_of_a_class_that_are_made_inside(program):
    agree(program, (X,), (X + 1,))


def either(x):
    s = x.as_subclass(Base) if x.sum() > 0 else x
    return s + 1, type(s), isinstance(s, Base)


def after_branch(x):
    s = x.as_subclass(Base)
    t = s * 2 if s.sum() > 0 else s - 1
    return t, type(t), s.doubled()


def looped(x):
    s = x.as_subclass(Base)
    while s.sum() < 10:
        s = s + 1
    return s, type(s)


def changed_by_a_loop(x):
    s = x
    while s.sum() < 10:
        s = (s + 1).as_subclass(Base)
    return s, type(s)


@pytest.mark.parametrize("program", [either, after_branch, looped, changed_by_a_loop])
def test_classes_where_tensors_decide(program):
    agree(program, (X,), (-X,), (X + 9,))


def taken(s):
    return s.doubled(), s + 1, type(s), isinstance(s, Base), s


def test_tensors_of_a_class_as_arguments():
    agree(taken, (X.as_subclass(Base),), (-X.as_subclass(Base),))
    agree(lambda s: (s + 1, type(s)), (X,), (X.as_subclass(Base),), (X.as_subclass(Without),), programs=3)
    given = X.as_subclass(Scaled)
    given.scale = 5.0
    agree(lambda s: (s.scaled(), s.scale, s + 1), (given,))
    agree(lambda s: (s + 1, s.shape, s[0]), (X.as_subclass(Saying),))


OUTSIDE = [X.as_subclass(Base)]


def test_tensors_of_a_class_from_outside():
    def program(x):
        return OUTSIDE[0] * x, type(OUTSIDE[0])

    static = agree(program, (X,))
    OUTSIDE[0] = X
    assert outcome(static, (X,)) == outcome(program, (X,))
    net = nn.Linear(3, 3)
    net.scale = X.as_subclass(Saying)
    agree(lambda x: net(x) * net.scale, (X,))


def test_texts_of_tensors_of_a_class():
    agree(lambda x: (str(Tagged(x, "a")), f"{Tagged(x, 'b')!r}.", f"{Tagged(x, 'c')}"), (X,), (X + 1,))
    with pytest.raises(dy2st.CaptureError, match="a text is made of a tensor of the class Base"):
        dy2st.to_static(lambda x: str(x.as_subclass(Base)))(X)


def grown(x):
    items = []
    while len(items) < x.sum():
        items.append(x.as_subclass(Base))
    return items


def test_lists_of_any_length_of_such_tensors_are_refused():
    with pytest.raises(dy2st.CaptureError, match="gives away a list of tensors of a class of the user's"):
        dy2st.to_static(grown)(X)


def test_classes_with_a_dispatcher_of_their_own_are_refused():
    class Own(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    with pytest.raises(dy2st.CaptureError, match="is made one of the class"):
        dy2st.to_static(lambda x: x.as_subclass(Own))(X)
    with pytest.raises(dy2st.CaptureError, match="__torch_dispatch__ of its own"):
        dy2st.to_static(lambda x: x)(torch.Tensor._make_subclass(Own, X))


def inside_alone(x):
    s = Scaled(x)
    return (s.scaled() + 1).as_subclass(torch.Tensor)


def test_only_programs_whose_classes_nobody_sees_are_saved(tmp_path):
    dy2st.save(inside_alone, tmp_path / "inside.dy2st", input_spec=[X])
    loaded = dy2st.load(tmp_path / "inside.dy2st")
    assert type(loaded(X)) is torch.Tensor and torch.equal(loaded(X), inside_alone(X))
    outside = X.as_subclass(Base)
    for program in (lambda x: x.as_subclass(Base), lambda x: (outside * x).as_subclass(torch.Tensor)):
        with pytest.raises(dy2st.SaveError, match="tensors of the class Base"):
            dy2st.save(program, tmp_path / "seen.dy2st", input_spec=[X])


def attributes_in_a_loop(x):
    total = 0
    while x.sum() < 20:
        y = x + 1
        y.tag = 3
        total += y.tag
        x = y
    return x * 1, total


def attributes_in_branches(x):
    for step in range(3):
        y = (x * step).as_subclass(Base)
        if x.sum() > 2:
            y.tag = step
        else:
            y.tag = 7
        x = x + y.tag
    return x


@pytest.mark.parametrize("program", [attributes_in_a_loop, attributes_in_branches])
def test_attributes_of_tensors_that_iterations_make(program):
    agree(program, (X,), (X + 9,), (-X,))


class Renaming(torch.Tensor):
    """Has other methods under the names of those of tensors."""

    def permute(self, shifts):
        return self.roll(shifts, -1)

    def view(self):
        return "a view"

    def unbind(self, other):
        return self * other

    def dim(self):
        return "no number"


def renamed(x):
    s = x.as_subclass(Renaming)
    spectrum = torch.fft.ifft(torch.fft.fft(s))
    return spectrum.real, s.permute(1), s.view(), s.unbind(s), s[:2], s.dim(), torch.stack([s, s]).reshape(-1), s.tolist()


def test_methods_under_the_names_of_those_of_tensors_are_called_by_the_users_code_alone():
    agree(renamed, (X,), (X + 1,))
