"""Which object an exception is where it is caught, what it tells of itself, and errors that numbers make in a ``try`` statement."""

from __future__ import annotations

import collections
import contextlib
import math
import types

import pytest
import torch

import dy2st
from tests.oracle import agree

P, N = torch.ones(2), -torch.ones(2)
SIGNS = [(P,), (N,), (torch.tensor([3.0, -9.0]),), (torch.tensor([3.0, 3.0]),)]
FIRST, SECOND = ValueError("first", 3), KeyError("second")


class Box:
    """An object of the user's."""


class Refusing:
    def __getattr__(self, name):
        raise AttributeError(f"no {name}")


BOX, REFUSING = Box(), Refusing()
BOX.error = FIRST


def test_an_exception_from_outside_is_itself_where_it_is_caught():
    def held(x):
        try:
            if x.sum() > 0:
                raise BOX.error
        except ValueError as error:
            return error is FIRST, error.args
        return None

    def chosen(x):
        try:
            raise FIRST if x.sum() > 0 else SECOND
        except (ValueError, KeyError) as error:
            return error is FIRST, error is SECOND

    def behind(x):
        try:
            if x.sum() > 0:
                raise TypeError("a") from FIRST
        except TypeError as error:
            return error.__cause__ is FIRST
        return None

    def passed_by_finally(x):
        try:
            try:
                if x.sum() > 0:
                    raise FIRST
            finally:
                if x[0] > 1:
                    raise TypeError("a")
        except TypeError as error:
            return error.__context__ is FIRST
        except ValueError as error:
            return error is FIRST
        return None

    for function in (held, chosen, behind, passed_by_finally):
        agree(function, SIGNS)


def test_an_exception_from_outside_that_leaves_is_itself():
    seen = []

    @dy2st.to_static
    def f(x):
        seen.append(1)
        if x.sum() > 0:
            raise FIRST
        return x

    f(N)
    with pytest.raises(ValueError) as raised:
        f(P)
    assert raised.value is FIRST


def test_an_exception_from_outside_gets_no_context_where_a_tensor_decides():
    def f(x):
        if x.sum() > 0:
            raise FIRST from TypeError("cause")
        return x

    with pytest.raises(dy2st.CaptureError, match="from outside is raised where a tensor decides"):
        dy2st.to_static(f)(N)


def test_a_cause_is_the_context_as_well():
    def f(x):
        try:
            try:
                if x.sum() > 0:
                    raise ValueError("a", int(x[0]))
            except ValueError as error:
                raise KeyError("b") from error
        except KeyError as error:
            return error.__cause__ is error.__context__, repr(error.__cause__)
        return None

    agree(f, SIGNS)


class Raising:
    """Raises at its end where it is told to."""

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.wanted:
            raise KeyError("end")


@contextlib.contextmanager
def raising(wanted):
    try:
        yield
    finally:
        if wanted:
            raise KeyError("end")


@pytest.mark.parametrize("manager", [Raising, raising])
def test_what_is_raised_on_the_way_out_has_the_context_of_the_way(manager):
    def f(x):
        try:
            with manager(x[0] > 1):
                if x.sum() > 0:
                    raise ValueError("a")
        except KeyError as error:
            return repr(error.__context__)
        except ValueError as error:
            return repr(error.__context__), "passed"
        return None

    agree(f, SIGNS)


def test_an_attribute_error_tells_the_name_and_the_object():
    def missing(x):
        try:
            return BOX.nothing if x.sum() > 0 else x
        except AttributeError as error:
            return str(error), error.name, error.obj is BOX

    def open_attribute(x):
        box = Box()
        if x.sum() > 0:
            box.n = 1
        try:
            return box.n
        except AttributeError as error:
            return str(error), error.name, error.obj is box

    def own_way(x):
        try:
            return REFUSING.nothing if x.sum() > 0 else x
        except AttributeError as error:
            return str(error), error.name, error.obj is REFUSING

    def of_nothing(x):
        one = None if x.sum() > 0 else x
        try:
            return one.shape
        except AttributeError as error:
            return str(error), error.name, error.obj is None

    for function in (missing, open_attribute, own_way, of_nothing):
        agree(function, SIGNS)


def test_a_name_error_tells_the_name_of_what_is_no_local():
    def no_global(x):
        try:
            return nothing if x.sum() > 0 else x  # noqa: F821
        except NameError as error:
            return str(error), error.name

    def no_free_variable(x):
        def inner():
            return y

        if x.sum() > 0:
            y = 1
        try:
            return inner()
        except NameError as error:
            return str(error), error.name

    def no_local(x):
        if x.sum() > 0:
            y = 1
        try:
            return y
        except NameError as error:
            return str(error), error.name

    for function in (no_global, no_free_variable, no_local):
        agree(function, SIGNS)


def test_the_object_of_an_attribute_error_that_a_branch_makes_is_refused():
    def f(x):
        try:
            if x.sum() > 0:
                return Box().nothing
        except AttributeError as error:
            return error.obj is None
        return x

    with pytest.raises(dy2st.CaptureError, match="is not known where it is caught"):
        dy2st.to_static(f)(P)


def test_classes_in_c_have_their_module_in_errors():
    def of_namespace(x):
        space = types.SimpleNamespace(a=1)
        if x.sum() > 0:
            del space.a
        return space.a

    def of_deque(x):
        window = collections.deque([x])
        if x.sum() > 0:
            window.append(x)
        found = [hasattr(window, "items"), hasattr(window, "append")]
        for act in (lambda: window.items, lambda: setattr(window, "n", 1), lambda: window + [x], lambda: window()):
            try:
                act()
            except (AttributeError, TypeError) as error:
                found.append(str(error))
        return found

    for function in (of_namespace, of_deque):
        agree(function, SIGNS)


NUMBERS = [(torch.tensor([a, 1.5]),) for a in (2.5, math.nan, math.inf, -math.inf)]


def test_an_int_of_what_is_no_number_is_caught():
    def f(x):
        found = []
        for function in (int, round, math.floor, math.ceil, math.trunc):
            try:
                found.append(function(float(x[0])))
            except (ValueError, OverflowError) as error:
                found.append(repr(error))
        with contextlib.suppress(ValueError, OverflowError):
            found.append(int(x[0]))
        return found

    agree(f, NUMBERS)


def test_a_range_whose_step_is_zero_is_caught():
    def f(x, n):
        try:
            return list(range(0, 6, int(n)))
        except ValueError as error:
            return str(error)

    agree(f, [(P, torch.tensor(n)) for n in (2, 0, -1)], programs=None)
