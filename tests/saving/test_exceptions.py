"""What a loaded model leaves when a call of it raises: what eager leaves."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec
from tests.oracle import same
from tests.programs.test_exception_attributes import told

ROWS = [InputSpec([None, 3])]
GOOD, BAD = torch.full((2, 3), 0.5), torch.full((2, 3), -0.5)
CALLS = [GOOD, BAD, BAD * 2, GOOD * 3, BAD, GOOD]


def outcome(model: nn.Module, x: torch.Tensor, seed: int) -> dict[str, Any]:
    """What one call gives, raises and prints, and what the model is like afterwards."""
    torch.manual_seed(seed)
    x, result, raised, printed = x.clone(), None, None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = model(x)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
    names = [name for name in vars(model) if not name.startswith("_") and name != "training"]
    attributes = {name: copy.deepcopy(getattr(model, name)) for name in sorted(names)}
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    random = torch.get_rng_state()
    return {"result": result, "raised": raised, "printed": printed.getvalue(), "x": x, **attributes, **buffers, "random": random}


def follow(model: nn.Module, tmp_path: Path, calls: list[torch.Tensor] = CALLS, spec: Any = ROWS) -> None:
    """Compare a model with what it is when loaded, call after call, on each executor and after a second saving."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dy2st.save(model, tmp_path / "first", spec)
    dy2st.load(tmp_path / "first").save(tmp_path / "second")
    for name, backend in (("first", "native"), ("first", "python"), ("second", "native")):
        eager, loaded = copy.deepcopy(model), dy2st.load(tmp_path / name, backend=backend)
        for index, x in enumerate(calls):
            expected, found = outcome(eager, x, index), outcome(loaded, x, index)
            same({key: expected[key] for key in found}, found, f"call {index} of the {name} file with {backend}")


class Model(nn.Module):
    """Counts in an attribute, and raises where the body says so."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.calls, self.failed, self.scale, self.last = 0, 0, 1.0, torch.zeros(3)
        self.recent, self.table = [torch.zeros(3), torch.zeros(3)], {"sum": torch.zeros(()), "count": 0}
        self.register_buffer("total", torch.zeros(()))
        self.body = body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self, x)


def after_a_write(self, x):
    self.calls += 1
    if x.sum() < 0:
        raise ValueError(f"negative: {x.sum()}")
    self.last = x[0]
    return x * self.calls


def only_where_it_raises(self, x):
    if x.sum() < 0:
        self.failed += 1
        raise ValueError("negative")
    return x * self.failed


def asserted(self, x):
    self.last = x.sum(0)
    self.scale = self.scale * 2
    if not x.sum() > 0:
        raise AssertionError("must be positive")
    self.calls += 1
    return x * self.scale


def operation_that_fails(self, x):
    self.calls += 1
    self.last = x[0] * 2
    y = x[int(x.sum())]
    self.failed += 1
    return y


def in_a_loop(self, x):
    for row in x:
        self.calls += 1
        self.last = row
        if row.sum() < 0:
            raise ValueError("negative")
        self.last = self.last * 2
    return self.last


def buffer_in_place(self, x):
    self.calls += 1
    self.total.add_(x.sum())
    self.scale = self.scale + 1.0
    if x.sum() < 0:
        raise ValueError("negative")
    self.total.mul_(2)
    return x * self.total


def buffer_replaced(self, x):
    self.total = self.total + 1
    y = x[int(x.sum())]
    self.total = self.total + 10
    return y


def printed_before(self, x):
    self.calls += 1
    print("call", self.calls)
    if x.sum() < 0:
        raise ValueError("negative")
    print("done")
    return x + self.calls


def random_before(self, x):
    self.last = torch.rand(3)
    self.calls += 1
    if x.sum() < 0:
        raise ValueError("negative")
    return x + self.last


def argument_in_place(self, x):
    x.add_(1)
    self.calls += 1
    y = x[int(x.sum()) - 7]
    self.calls += 1
    return y


def items_of_containers(self, x):
    self.recent[0] = x[0]
    self.table["count"] += 1
    if x.sum() < 0:
        self.table["sum"] = x.sum()
        raise ValueError("negative")
    self.recent[1] = x[1]
    return x * self.table["count"] + self.recent[1]


def list_of_unchanging_length(self, x):
    self.recent.append(x[0])
    self.recent.pop(0)
    if x.sum() < 0:
        raise ValueError("negative")
    return torch.stack(self.recent)


def caught_inside(self, x):
    self.calls += 1
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        self.calls += 10
    except ValueError:
        self.failed += 1
    finally:
        self.scale = self.scale + 1
    if x.sum() < -2:
        raise RuntimeError("too small")
    return x * self.calls


def put_back(self, x):
    before = self.scale
    self.scale = 5.0
    y = x[int(x.sum())]
    self.scale = before
    return y * self.scale


BODIES = [
    after_a_write, only_where_it_raises, asserted, operation_that_fails, in_a_loop, buffer_in_place, buffer_replaced, printed_before,
    random_before, argument_in_place, items_of_containers, list_of_unchanging_length, caught_inside, put_back,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_what_was_written_stays(body, tmp_path):
    follow(Model(body), tmp_path)


def global_written(self, x):  # here
    global COUNT
    self.calls += 1
    if x.sum() < 0:
        COUNT = COUNT + 1
        raise ValueError("negative")
    return x * self.calls


def list_that_grows(self, x):
    if x.sum() < 0:
        self.recent.append(x[0])  # here
        raise ValueError("negative")
    return x * self.scale


def another_type(self, x):
    if x.sum() < 0:
        self.failed = "negative"  # here
        raise ValueError("negative")
    return x * self.failed


COUNT = 0


@pytest.mark.parametrize("body", [global_written, list_that_grows, another_type], ids=lambda body: body.__name__)
def test_what_no_file_can_say_is_told(body, tmp_path):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    first = body.__code__.co_firstlineno
    line = next(number for number in range(first, len(lines)) if lines[number - 1].endswith("# here"))
    with pytest.warns(UserWarning, match=rf"test_exceptions.py:{line}: .* raises leaves attributes as they were") as seen:
        dy2st.save(Model(body), tmp_path / "model", ROWS)
    assert len(seen) == 1
    eager, loaded = Model(body), dy2st.load(tmp_path / "model")
    same(eager(GOOD), loaded(GOOD))
    with pytest.raises(ValueError, match="negative"):
        loaded(BAD)
    same(Model(body)(GOOD) if body is not global_written else GOOD * 2, loaded(GOOD))


def test_a_limit_of_steps_is_no_exception_of_the_program(tmp_path):
    def body(self, x):
        self.calls += 1
        while x.sum() > 0:
            x = x - 1
        return x

    dy2st.save(Model(body), tmp_path / "model", ROWS)
    loaded = dy2st.load(tmp_path / "model", max_steps=3)
    with pytest.raises(dy2st.StepLimitError):
        loaded(GOOD * 100)
    assert loaded.calls == 0


def test_an_inference_model_leaves_its_state(tmp_path):
    dy2st.save_inference_model(tmp_path / "model", Model(after_a_write), input_spec=ROWS)
    loaded = dy2st.load(tmp_path / "model")
    with pytest.raises(ValueError, match="negative"):
        loaded(BAD)
    assert loaded.calls == 0


def test_copies_and_methods_keep_what_a_call_leaves(tmp_path):
    class Two(Model):
        def other(self, x):
            self.failed += 2
            return x[int(x.sum())]

    dy2st.save(Two(after_a_write), tmp_path / "model", methods={"forward": ROWS, "other": ROWS})
    loaded = copy.deepcopy(dy2st.load(tmp_path / "model").to("cpu"))
    eager = Two(after_a_write)
    for x in CALLS:
        for method in ("other", "__call__"):
            for model in (eager, loaded):
                with contextlib.suppress(ValueError, IndexError):
                    getattr(model, method)(x)
            assert (eager.calls, eager.failed) == (loaded.calls, loaded.failed)


def raised_in_a_handler(x):
    try:
        if x.sum() < 0:
            raise ValueError(f"the sum is {x.sum()}")
    except ValueError:
        raise KeyError("b")
    return x


def raised_from_another(x):
    try:
        if x.sum() < 0:
            raise ValueError("a", 1)
    except ValueError as error:
        raise KeyError("b") from error
    return x


def raised_from_nothing(x):
    try:
        if x.sum() < 0:
            raise ValueError("a")
    except ValueError:
        raise KeyError("b") from None
    return x


def raised_at_the_end(x):
    try:
        if x.sum() < 0:
            raise ValueError("a")
    finally:
        if x.max() < 0:
            raise KeyError("b", x.max())
    return x


def checked_in_a_handler(x):
    try:
        if x.sum() < 0:
            raise ValueError("a")
    except ValueError:
        [][0]
    return x


class Swap:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if value is not None:
            raise RuntimeError(f"instead of a {kind.__name__}") from value


def raised_by_a_manager(x):
    with Swap():
        if x.sum() < 0:
            raise ValueError("a")
    return x


def three_of_them(x):
    try:
        try:
            if x.sum() < 0:
                raise ValueError("a")
        except ValueError:
            raise KeyError("b")
    except KeyError:
        raise IndexError("c")
    return x


def with_notes(x):
    if x.sum() < 0:
        error = ValueError("a")
        error.__notes__ = ["one", f"the sum is {x.sum()}"]
        raise error
    return x


class Coded(Exception):
    def __init__(self, code, extra):
        super().__init__(f"code {code}")
        self.code, self.extra = code, extra


def with_attributes(x):
    if x.sum() < 0:
        raise Coded(3, [x.sum(), "k"])
    return x


CHAINS = [
    raised_in_a_handler, raised_from_another, raised_from_nothing, raised_at_the_end, checked_in_a_handler, raised_by_a_manager,
    three_of_them, with_notes, with_attributes,
]  # fmt: skip


@pytest.mark.parametrize("function", CHAINS, ids=lambda function: function.__name__)
def test_exceptions_hold_what_eagers_hold(function, tmp_path):
    dy2st.save(function, tmp_path / "first", ROWS)
    dy2st.load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    for name, backend in (("first", "native"), ("first", "python")):
        loaded = dy2st.load(tmp_path / name, backend=backend)
        for x in (*CALLS, *CALLS):
            assert chain(function, x) == chain(loaded, x)


def chain(function, x):
    try:
        return str(function(x))
    except Exception as error:
        return told(error)


class Plain(ValueError):
    said = "no attributes"

    def __str__(self):
        return f"{self.said}, {self.args}"


class Own(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code

    def __str__(self):
        return f"own {self.code}"


def _raising(make):
    def function(x):
        if x.sum() < 0:
            raise make(x)
        return x

    return function


@pytest.mark.parametrize("backend", ["python", None])
@pytest.mark.parametrize("make", [lambda x: Plain(), lambda x: Plain("a", 1), lambda x: Own(3)])
def test_text_that_code_tells_is_kept(make, backend, tmp_path):
    function = _raising(make)
    dy2st.save(function, tmp_path / "model", ROWS)
    dy2st.load(tmp_path / "model").save(tmp_path / "again")
    for name in ("model", "again"):
        with pytest.raises(Exception) as expected:
            function(BAD)
        with pytest.raises(type(expected.value).__bases__[0]) as found:
            dy2st.load(tmp_path / name, backend=backend)(BAD)
        assert str(found.value) == str(expected.value) and found.value.args == expected.value.args
        left = {name: value for name, value in vars(found.value).items() if name != "__notes__"}
        assert left == vars(expected.value) and type(found.value).__name__ == type(expected.value).__name__


def test_text_of_the_exception_behind_another_is_kept(tmp_path):
    def function(x):
        if x.sum() < 0:
            try:
                raise Plain("inner")
            except Plain as error:
                raise KeyError("outer") from error
        return x

    dy2st.save(function, tmp_path / "model", ROWS)
    with pytest.raises(KeyError) as found:
        dy2st.load(tmp_path / "model")(BAD)
    assert str(found.value.__cause__) == "no attributes, ('inner',)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: Plain(x.sum().item()), "what a Plain says is told by code"),
        (lambda x: Own(x.sum().item()), "a Own with attributes of its own cannot be written"),
    ],
)
def test_text_that_is_code_is_refused(make, message, tmp_path):
    with pytest.raises(dy2st.SaveError, match=message):
        dy2st.save(_raising(make), tmp_path / "model", ROWS)
