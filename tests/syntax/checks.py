"""Checks: `assert`, `raise`, `try`, and the errors that Python raises by itself.

PYTEST_DONT_REWRITE: the assertions are part of the programs.
"""

from __future__ import annotations

import contextlib
import warnings

import torch

from tests.programs.values import num, signs, vec
from tests.syntax.case import Chapter

CHAPTER = Chapter("Checks")


class Invalid(ValueError):
    def __init__(self, name, value):
        super().__init__(f"{name} is {value}")
        self.name = name


@CHAPTER.captured('`if bad(x): raise E(f"… {x.shape}")`', calls=signs(), note="the same exception with the same message")
def guard(x):
    if x.sum() < 0:
        raise ValueError(f"negative sum {x.sum():.2f} of shape {tuple(x.shape)}")
    return x.sqrt()


@CHAPTER.captured("`assert` on a tensor", calls=signs(), note="the message is evaluated only when it fails")
def assert_with_message(x):
    assert x.sum() > 0, f"the sum is {x.sum()}"
    return x * 2


@CHAPTER.captured("`assert` with a walrus, without a message", calls=signs())
def assert_with_walrus(x):
    assert (total := x.sum()) > 0
    return x / total


@CHAPTER.plain("`assert` on a Python value", calls=signs())
def assert_isinstance(x):
    assert isinstance(x, torch.Tensor), "a tensor, please"
    assert x.dim() == 1
    return x + 1


@CHAPTER.captured("`raise` of an own class", calls=signs(), note="its attributes come along")
def raise_own_class(x):
    if x.sum() < 0:
        raise Invalid("sum", x.sum().item())
    return x


@CHAPTER.captured("`raise E` without arguments", calls=signs())
def raise_class(x):
    if x.sum() < 0:
        raise NotImplementedError
    return x


@CHAPTER.captured("`raise E from cause`, `raise E from None`", calls=signs())
def raise_from(x):
    if x.sum() < 0:
        try:
            return x * {}["scale"]
        except KeyError as error:
            raise ValueError("no scale") from error
    return x


@CHAPTER.captured("a bare `raise` that sends an exception on", calls=signs())
def raise_again(x):
    if x.sum() < 0:
        try:
            return x * {}["scale"]
        except KeyError:
            print("no scale")
            raise
    return x


@CHAPTER.captured("`raise` of one of several classes", calls=[*signs(), vec(-5, 0, 0)])
def raise_one_of(x):
    if x.sum() < 0:
        raise (KeyError if x[0] < -3 else ValueError)("negative")
    return x


@CHAPTER.captured("an exception made by a helper", calls=signs())
def raise_what_a_helper_makes(x):
    def complaint(value):
        return ValueError("bad", value.item(), value.shape)

    if x.sum() < 0:
        raise complaint(x.sum())
    return x


@CHAPTER.captured("`raise` in a loop", calls=[(vec(1, 2), num(n)) for n in (3, 0, 1, 7)])
def raise_in_a_loop(x, n):
    i = 0
    while i < n:
        x = x * 2
        if x[0] > 50:
            raise OverflowError(f"too big after {i}")
        i += 1
    return x


@CHAPTER.captured("`raise` on every way", calls=signs())
def raise_always(x):
    if x.sum() < 0:
        raise ValueError("negative")
    raise KeyError("not negative")


@CHAPTER.captured("a name that only the way without `raise` binds", calls=signs())
def name_of_the_other_way(x):
    if x.sum() < 0:
        raise ValueError("negative")
    else:
        y = x * 2
    return y


@CHAPTER.captured("a `KeyError`, `IndexError`, `AttributeError`, `TypeError` … that Python raises in a branch", calls=signs())
def errors_of_python(x):
    if x.sum() < 0:
        return x * {}["missing"]
    if x.sum() == 0:
        return x + None
    if x[1] < 0:
        return [x][3].unknown
    return x


@CHAPTER.captured("an error of torch in a branch", calls=signs(), note="raised when the branch runs, in eager's words")
def errors_of_torch(x):
    if x.sum() < 0:
        return x @ x.new_ones(5, 2)
    if x.sum() == 0:
        return x.view(2, 2)
    return x


@CHAPTER.captured("`try` / `except` / `else` / `finally` inside a branch", calls=signs())
def try_in_a_branch(x):
    if x.sum() < 0:
        try:
            x = x * {}["scale"]
        except KeyError:
            x = -x
        else:
            x = x * 100
        finally:
            x = x + 1
    return x


@CHAPTER.plain("`try` around Python errors", calls=signs())
def try_around_python(x):
    try:
        x = x.view(2, 2)
    except RuntimeError:
        x = x.view(3, 1)
    return x


@CHAPTER.captured("`try` around a `raise` that its handlers do not catch", calls=signs())
def try_of_another_kind(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
    except KeyError:
        x = x * 100
    return x


@CHAPTER.captured("`try` around a branch, loop or call that raises", calls=signs(), note="the handler is a branch")
def try_around_a_branch(x):
    try:
        if x.sum() < 0:
            raise ValueError(f"negative: {x.sum()}")
        x = x * 2
    except ValueError as error:
        return -x, str(error)
    return x, "fine"


@CHAPTER.captured("`try` around Python errors that a tensor decides", calls=signs())
def try_around_an_item(x):
    table = {"a": x}
    if x.sum() < 0:
        table["b"] = x + 1
    try:
        return table["b"]
    except KeyError:
        return x * 3


@CHAPTER.captured("`try` around an operation that the data makes fail (`cholesky`, `solve`, `x[n]`, `a // n`)", calls=signs())
def try_around_a_factorization(x):
    try:
        return torch.linalg.cholesky(torch.diag(x))
    except torch.linalg.LinAlgError as error:
        return x, str(error)


@CHAPTER.captured("`contextlib.suppress` around a branch, loop or call that raises", calls=signs())
def suppress_around_a_branch(x):
    with contextlib.suppress(KeyError):
        if x.sum() < 0:
            x = x * {}["scale"]
        x = x + 1
    return x


@CHAPTER.plain("`contextlib.suppress` around Python errors", calls=signs())
def suppress(x):
    with contextlib.suppress(KeyError):
        x = x * {}["scale"]
    return x + 1


@CHAPTER.captured("`warnings.warn` in a branch", calls=signs(), note="warns at each call that gets there")
def warn(x):
    if x.sum() < 0:
        warnings.warn("negative", stacklevel=2)
        x = -x
    return x


@CHAPTER.captured("`finally` around a `raise` that a tensor decides", calls=signs(), note="runs on the way out, as in eager")
def finally_around_a_raise(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        x = x * 2
    finally:
        print("done")
    return x
