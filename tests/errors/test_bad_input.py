"""Bad input: each error is one of the tree, names the user's line with a caret, says what was seen and how to fix it."""

from __future__ import annotations

import colorsys
import contextlib
import inspect
import re
import subprocess
import sys
import textwrap
import traceback
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, errors, to_static
from dy2st.errors import (
    CaptureError,
    ConversionError,
    DataDependentError,
    Dy2stError,
    LoopVariableError,
    SignatureError,
    SourceNotFoundError,
    UnsupportedSyntaxError,
)

X = torch.tensor([1.0, -2.0, 3.0])


def line_of(function: Any, marker: str) -> int:
    """The line of this file where a comment marks a function's bad line."""
    lines, first = inspect.getsourcelines(getattr(function, "function", function))
    (found,) = [n for n, text in enumerate(lines, first) if f"# {marker}" in text]
    return found


def refuses(function: Any, args: Any, kind: Any, *texts: str, lines: tuple[str, ...] = ("here",)) -> Any:
    """Check that a call is refused with an error that names the marked lines, shows carets, and says all of ``texts``."""
    static = function if isinstance(function, dy2st.StaticFunction) else to_static(function)
    with pytest.raises(kind) as caught:
        static(*args)
    error = caught.value
    text = str(error)
    assert isinstance(error, Dy2stError)
    assert type(error) is kind, f"{type(error)}: {text}"
    for marker in lines:
        number = line_of(static, marker)
        assert f'File "{__file__}", line {number}, in {static.function.__name__}' in text, text
    if lines:
        assert "^^^" in text, text
    for expected in texts:
        assert re.search(expected, text), f"{expected!r} is not in:\n{text}"
    if isinstance(error, CaptureError):
        assert "Fix: " in text, text
    return error


# -- source ------------------------------------------------------------------------------------------------------------------


def test_a_function_without_source_is_refused() -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2\n", space)
    with pytest.raises(
        SourceNotFoundError, match="cannot find the source of 'f'.*Define it in a file or a notebook cell"
    ) as caught:
        to_static(space["f"])
    assert isinstance(caught.value, SyntaxError)


def test_generators_and_coroutines_are_refused_at_their_definition() -> None:
    def generator(x: Any) -> Any:
        yield x

    async def coroutine(x: Any) -> Any:
        return x

    async def both(x: Any) -> Any:
        yield x

    for function in (generator, coroutine, both):
        with pytest.raises(UnsupportedSyntaxError) as caught:
            to_static(function)
        assert caught.value.filename == __file__
        assert caught.value.lineno in range(function.__code__.co_firstlineno, function.__code__.co_firstlineno + 2)
        shown = "".join(traceback.format_exception_only(caught.value))
        assert "^" in shown and __file__ in shown


def test_a_callee_without_source_is_named() -> None:
    space: dict[str, Any] = {}
    exec("def hidden(x):\n    if x.sum() > 0:\n        return x\n    return -x\n", space)
    hidden = space["hidden"]

    def f(x: Any) -> Any:
        return hidden(x)  # here

    refuses(f, (X,), DataDependentError, r"hidden \(<string>:2\)", r"Tensor.__bool__\(\)", "source that can be converted")


def test_a_callee_that_is_left_alone_is_named() -> None:
    @dy2st.not_to_static
    def left(x: Any) -> Any:
        if x.sum() > 0:  # asks
            return x
        return -x

    def f(x: Any) -> Any:
        try:
            return left(x + 1)
        except ValueError:
            return x

    place = re.escape(f"left ({__file__}:{line_of(left, 'asks')})")
    refuses(f, (X,), DataDependentError, place, r"if x.sum\(\) > 0:  # asks\n *\^\^\^", "Fix: ", lines=())


def test_a_library_function_is_named() -> None:
    def f(x: Any) -> Any:
        return colorsys.rgb_to_hls(x[0], x[1], x[2])  # here

    refuses(f, (X,), DataDependentError, "colorsys.py", "truth value|__bool__|value of a tensor")


def test_a_generator_expression_in_a_callee() -> None:
    def pieces(x: Any) -> Any:
        for i in range(3):
            with contextlib.nullcontext():
                if x[i] > 0:
                    yield x[i]

    def f(x: Any) -> Any:
        return sum(pieces(x))

    refuses(f, (X,), DataDependentError, "pieces", "if x\\[i\\] > 0", lines=())


# -- values of tensors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: zlib.crc32(x.numpy()),  # bytes of an array
        lambda x: np.broadcast_to(x, (2, 3)),  # function of numpy
        lambda x: x.numpy().tobytes(),  # method of numpy
        lambda x: x.data_ptr(),  # pointer
        lambda x: hash(x.sum().item()),  # hash
        lambda x: bytes(int(x.sum())),  # bytes
    ],
    ids=lambda f: inspect.getsource(f).partition("# ")[2].strip() if callable(f) else str(f),
)
def test_questions_that_have_no_answer_yet(ask: Any) -> None:
    with pytest.raises(CaptureError) as caught:
        to_static(ask)(X)
    text = str(caught.value)
    assert f'File "{__file__}", line {ask.__code__.co_firstlineno}' in text, text
    assert "^^^" in text and "Fix: " in text


def test_numpy_of_a_parameter() -> None:
    linear = nn.Linear(3, 3)

    def f(x: Any) -> Any:
        return x * zlib.crc32(linear.weight.detach().numpy())  # here

    refuses(f, (X,), DataDependentError, "crc32")


# -- branches and loops ------------------------------------------------------------------------------------------------------------


def test_a_loop_variable_that_changes_its_rank() -> None:
    def f(x: Any) -> Any:
        h = x
        while h.sum() > 0:  # here
            h = h[None] - 1
        return h

    refuses(f, (X,), LoopVariableError, "'h'", r"float32\[3\]", r"float32\[1, 3\]")


def test_a_name_bound_nowhere() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            y = x
        return y

    static = to_static(f)
    assert torch.equal(static(X), X)
    with pytest.raises(UnboundLocalError, match="'y'"):
        static(-X)


def test_recursion_that_a_tensor_decides() -> None:
    def countdown(x: Any) -> Any:
        if x.sum() > 0:
            return countdown(x - 1)
        return x

    with pytest.raises(CaptureError, match="calls itself") as caught:
        to_static(countdown)(X)
    assert "while loop" in str(caught.value) and __file__ in str(caught.value)


def test_a_generator_made_inside_cannot_come_out() -> None:
    def f(x: Any) -> Any:
        return (x * k for k in range(3))

    with pytest.raises(CaptureError, match="returns a generator that it makes itself") as caught:
        to_static(f)(X)
    assert "tuples, lists, dicts" in str(caught.value)


# -- arguments ---------------------------------------------------------------------------------------------------------------------


def g(x: Any, y: Any, scale: float = 1.0, *, shift: float = 0.0) -> Any:
    return x * scale + y + shift


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((X,), {}, r"g\(\): missing a required argument: 'y'"),
        ((X, X, 1.0, 2.0), {}, "too many positional arguments"),
        ((X, X), {"z": 1}, "got an unexpected keyword argument 'z'"),
        ((X, X), {"x": X}, "multiple values for argument 'x'"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(SignatureError, match=text) as caught:
        to_static(g)(*args, **kwargs)
    assert isinstance(caught.value, TypeError)


SPEC = [InputSpec([None, 3], "float32", "x"), InputSpec([3], torch.int64)]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            (torch.ones(2, 3, dtype=torch.float64), torch.ones(3).long()),
            r"'x' is specified with dtype torch.float32, but has torch.float64",
        ),
        ((torch.ones(2, 3), torch.ones(3)), r"'y' is specified with dtype torch.int64, but has torch.float32"),
        ((torch.ones(3), torch.ones(3).long()), r"'x' is specified with shape \[None, 3\], but has \[3\]"),
        ((torch.ones(2, 4), torch.ones(3).long()), r"'x' is specified with shape \[None, 3\], but has \[2, 4\]"),
        ((2.0, torch.ones(3).long()), r"'x' is specified as a tensor .*, but a float was given"),
        ((torch.ones(2, 3), None), r"'y' is specified as a tensor .*, but a NoneType was given"),
    ],
)
def test_arguments_that_miss_their_specification_are_refused(args: Any, text: str) -> None:
    with pytest.raises(SignatureError, match=text):
        to_static(g, input_spec=SPEC)(*args)


def test_more_specifications_than_parameters() -> None:
    with pytest.raises(SignatureError, match=r"g\(\) has 3 parameters, but input_spec has 4 entries"):
        to_static(g, input_spec=[*SPEC, 1.0, 2.0])


def test_nests_that_miss_their_specification_are_refused() -> None:
    def f(pair: Any) -> Any:
        return pair[0] + pair[1]["k"]

    static = to_static(f, input_spec=[(InputSpec([3]), {"k": InputSpec([3])})])
    assert torch.equal(static((X, {"k": X})), X + X)
    for wrong in ((X,), (X, {"k": X, "j": X}), (X, {"other": X}), [X, {"k": X}], X, (X, X)):
        with pytest.raises(SignatureError, match="'pair"):
            static(wrong)


def test_another_constant_than_the_specified_one_is_refused() -> None:
    static = to_static(g, input_spec=[InputSpec([3]), InputSpec([3]), 2.0])
    assert torch.equal(static(X, X, 2.0), X * 2 + X)
    with pytest.raises(SignatureError, match=r"'scale' is specified as 2.0, but 3.0 was given"):
        static(X, X, 3.0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: InputSpec([2.5]), "a size must be a number"),
        (lambda: InputSpec(["n"]), "a size must be a number"),
        (lambda: InputSpec([True]), "a size must be a number"),
        (lambda: InputSpec([-2]), "a size must be a number"),
        (lambda: InputSpec(3), "shape"),
        (lambda: InputSpec("abc"), "shape|size"),
        (lambda: InputSpec([2], "float33"), "'float33' is no dtype"),
        (lambda: InputSpec([2], float), "is no dtype"),
        (lambda: InputSpec([2], 3), "is no dtype"),
        (lambda: InputSpec.from_tensor([1.0]), "tensor"),
        (lambda: InputSpec([2], name=3), "name"),
    ],
)
def test_specifications_that_make_no_sense(make: Any, text: str) -> None:
    with pytest.raises(SignatureError, match=text):
        make()


def test_program_without_arguments_or_specifications() -> None:
    with pytest.raises(SignatureError, match="missing a required argument"):
        to_static(g).program()


def test_sparse_tensors_are_refused() -> None:
    def f(x: Any) -> Any:
        return x * 2

    with pytest.raises(CaptureError, match="sparse") as caught:
        to_static(f)(torch.eye(3).to_sparse())
    assert "to_dense" in str(caught.value)


# -- how errors look ------------------------------------------------------------------------------------------------------------------


def test_the_whole_message_has_place_cause_and_fix() -> None:
    def f(x: Any) -> Any:
        h = {"x": x}
        while h["x"].sum() > 0:  # here
            h = {**h, str(len(h)): x, "x": h["x"] - 1}
        return h

    error = refuses(f, (X,), LoopVariableError)
    number = line_of(f, "here")
    before, seen, fix = str(error).partition("Seen: a dict of (a tensor float32[3], ")[0], *str(error).splitlines()[-2:]
    assert before == textwrap.dedent(
        f"""\
        'h' is not the same kind of value before and after an iteration of this loop
          File "{__file__}", line {number}, in f
            while h["x"].sum() > 0:  # here
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        """
    )
    assert len(seen) < 500
    assert fix == "Fix: give 'h' its final dtype, number of dimensions and structure before the loop"


def test_a_value_that_nests_deeper_at_each_iteration() -> None:
    def f(x: Any) -> Any:
        h = (x,)
        while h[0].sum() > 0:  # here
            h = (h[0] - 1, h)
        return h

    error = refuses(f, (X,), LoopVariableError)
    assert str(error).startswith("'h' is another kind of value after each iteration of this loop\n")
    assert f"line {line_of(f, 'here')}, in f" in str(error)
    assert "Seen: a tuple of (a tensor float32[3]) before, then a tuple that grows" in str(error)


def test_own_frames_do_not_hide_the_users() -> None:
    def inner(x: Any) -> Any:
        return x.data_ptr()

    @to_static
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return inner(x)
        return x

    with pytest.raises(DataDependentError) as caught:
        f(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files.count(__file__) >= 3  # the call here, f, inner
    assert sum("dy2st" in name for name in files) <= 3
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1


def test_errors_of_the_users_code_keep_their_type_and_lose_our_frames() -> None:
    class Own(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a)
            self.b = b

    @to_static
    def f(x: Any) -> Any:
        raise Own(1, 2)

    with pytest.raises(Own) as caught:
        f(X)
    assert caught.value.b == 2 and len(traceback.extract_tb(caught.value.__traceback__)) <= 5
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_all_frames_on_request() -> None:
    script = textwrap.dedent("""
        import sys, torch
        sys.path.insert(0, {folder!r})
        import bad
        bad.f(torch.ones(3))
    """)
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "bad.py"), "w") as file:
            file.write("import dy2st\n@dy2st.to_static\ndef f(x):\n    return x.data_ptr()\n")
        counts = {}
        for setting in ("", "full"):
            environment = {**os.environ, "DY2ST_TRACEBACK": setting}
            done = subprocess.run(
                [sys.executable, "-c", script.format(folder=folder)], capture_output=True, text=True, env=environment, check=False
            )
            assert "DataDependentError" in done.stderr and "bad.py" in done.stderr
            counts[setting] = done.stderr.count("  File ")
    assert counts[""] < 8 < counts["full"]


def test_the_tree_of_errors() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            assert issubclass(kind, Dy2stError)
            assert kind.__doc__
    assert issubclass(ConversionError, SyntaxError)
