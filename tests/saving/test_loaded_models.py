"""Saving from the front end: a loaded model does what the eager one does, call after call, in both modes."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import os
import pickle
import subprocess
import sys
import textwrap
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import dy2st
from dy2st import CaptureError, InputSpec, SaveError, SignatureError
from tests.oracle import same

ROWS = [InputSpec([None, 3])]
PAIR = [InputSpec([2, 3])]
BATCHES = [torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.dy2st"


def save_and_load(model: Any, path: Path, spec: Any = ROWS) -> Any:
    dy2st.save(model, path, spec)
    return dy2st.load(path)


def follow(model: nn.Module, path: Path, spec: Any = ROWS, calls: Any = BATCHES) -> Any:
    """Compare a model with what it is when loaded, over several calls in each mode."""
    loaded = save_and_load(copy.deepcopy(model), path, spec)
    for mode in (False, True):
        eager, found = copy.deepcopy(model).train(mode), copy.deepcopy(loaded).train(mode)
        for index, x in enumerate(calls):
            torch.manual_seed(index)
            expected = eager(x)
            torch.manual_seed(index)
            same(expected, found(x), f"call {index} with training={mode}")
        same(dict(eager.state_dict()), dict(found.state_dict()))
    return loaded


def line_marked(model: nn.Module) -> int:
    """The line of a model's ``forward`` that ends with ``# here``."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    first = type(model).forward.__code__.co_firstlineno
    return next(number for number in range(first, len(lines)) if lines[number - 1].endswith("# here"))


class Base(nn.Module):
    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        for name, value in attributes.items():
            setattr(self, name, value)


# -- state in attributes -----------------------------------------------------------------------------------------------


class Recurrent(Base):
    def forward(self, x):
        self.h = torch.tanh(self.layer(x) + self.h)
        return self.h


class LastOutput(Base):
    last = None

    def forward(self, x):
        y = self.layer(x)
        self.last = y
        return y + 1


class Counter(Base):
    def forward(self, x):
        self.n += 1
        if self.n == 3:
            self.n = 0
        return x * self.n + torch.arange(3)[self.n]


class Decay(Base):
    def forward(self, x):
        self.rate *= 0.5
        return x * self.rate, self.rate


class FirstCall(Base):
    def forward(self, x):
        if not self.seen:
            self.mean = x.mean(0)
            self.seen = True
        return x - self.mean


class TupleState(Base):
    def __init__(self):
        super().__init__(state=(torch.zeros(2, 3), torch.zeros(2, 3)))
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, x):
        h, c = self.state
        self.state = self.cell(x, (h, c))
        return self.state[0]


class Containers(Base):
    def forward(self, x):
        for i in range(2):
            self.hs[i] = self.hs[i] + x * i
        self.table["sum"] = self.table["sum"] + x
        self.table["n"] += 1
        return self.hs[1] + self.table["sum"] * self.table["n"]


class WrittenOnOneSide(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.h = x
            self.n = 5
        return x * self.n - self.h


class WrittenInALoop(Base):
    def forward(self, x):
        total = x.sum()
        while total < 2:
            self.n += 1
            self.h = self.h + x
            total = total + 1
        return x * self.n + self.h


class WrittenByAHelper(Base):
    def __init__(self):
        super().__init__(n=0)
        self.first = Recurrent(h=torch.zeros(2, 3))
        self.again = self.first

    def count(self):
        self.n += 1
        return self.n

    def forward(self, x):
        return self.again(self.first(x)) * self.count() * self.count()


class TrainingWrites(Base):
    def forward(self, x):
        if self.training:
            self.n += 1
        return x * self.n


class Buffers(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros(1), persistent=False)

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.mean(0)
        self.steps.add_(1)
        return x - self.mean / self.steps


class GrowingCache(Base):
    def forward(self, x):
        self.cache = torch.cat([self.cache, x])
        return self.cache.sum(0)


class PlainObject:
    def __init__(self):
        self.n, self.h = 0, torch.zeros(3)


class Holder(Base):
    def forward(this, x):
        this.inner.n += 1
        this.inner.h = this.inner.h + x.mean(0)
        return x * this.inner.n + this.inner.h


STATEFUL = {
    "tensor": Recurrent(h=torch.zeros(2, 3)),
    "write only": LastOutput(),
    "int": Counter(n=0),
    "float": Decay(rate=8.0),
    "bool": FirstCall(seen=False, mean=torch.zeros(3)),
    "tuple": TupleState(),
    "list and dict": Containers(hs=[torch.zeros(2, 3), torch.ones(2, 3)], table={"sum": torch.zeros(2, 3), "n": 0}),
    "one branch": WrittenOnOneSide(h=torch.zeros(2, 3), n=1),
    "loop": WrittenInALoop(h=torch.zeros(2, 3), n=1),
    "helper and shared submodule": WrittenByAHelper(),
    "training only": TrainingWrites(n=0),
    "buffers": Buffers(),
    "object": Holder(inner=PlainObject()),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_loaded_state_in_attributes_follows_eager(name, path):
    follow(STATEFUL[name], path, PAIR)


def test_loaded_state_that_grows_follows_eager(path):
    follow(GrowingCache(cache=torch.zeros(0, 3)), path, calls=[torch.randn(n, 3) for n in (2, 5, 1)])


def test_state_that_one_mode_writes_and_the_other_reads(path):
    model = TrainingWrites(n=0)
    loaded = save_and_load(model, path)
    for found in (model, loaded):
        found.train()
        found(BATCHES[0]), found(BATCHES[0])
        found.eval()
    same(model(BATCHES[1]), loaded(BATCHES[1]))


def test_state_is_saved_as_it_is_and_can_be_set(path, tmp_path):
    model = TupleState()
    model(BATCHES[0])
    loaded = save_and_load(model, path, PAIR)
    assert type(loaded.state) is tuple
    same([part.detach() for part in model.state], list(loaded.state))
    same(model(BATCHES[1]), loaded(BATCHES[1]))
    loaded.save(tmp_path / "again")
    again = dy2st.load(tmp_path / "again")
    same(model(BATCHES[2]), again(BATCHES[2]))
    again.state = model.state = (torch.ones(2, 3), torch.ones(2, 3))
    same(model(BATCHES[3]), again(BATCHES[3]))


def test_saving_changes_nothing_in_the_model(path):
    model = Containers(hs=[torch.zeros(2, 3), torch.ones(2, 3)], table={"sum": torch.zeros(2, 3), "n": 0})
    model.layer.eval()
    before = copy.deepcopy(vars(model))
    dy2st.save(model, path, PAIR)
    same({name: before[name] for name in ("hs", "table")}, {name: vars(model)[name] for name in ("hs", "table")})
    assert model.training
    assert not model.layer.training


class StartsAsNone(Base):
    def forward(self, x):
        if self.h is None:
            self.h = torch.zeros_like(x)  # here
        self.h = self.h + x
        return self.h


class ShadowsNone(Base):
    h = None

    def forward(self, x):
        if self.h is None:
            self.h = x.clone()  # here
        return x


class StartsMissing(Base):
    def forward(self, x):
        if not hasattr(self, "h"):
            self.h = torch.zeros_like(x)  # here
        self.h = self.h + x
        return self.h


class BecomesFloat(Base):
    def forward(self, x):
        self.n = self.n + 0.5  # here
        return x * self.n


class ChangesDtype(Base):
    def forward(self, x):
        self.h = self.h.double() + x  # here
        return self.h


class ChangesText(Base):
    def forward(self, x):
        self.mode = "b" if self.mode == "a" else "a"  # here
        return x + (1 if self.mode == "a" else 2)


class Logs(Base):
    def forward(self, x):
        self.log.append(x.sum())  # here
        return x + len(self.log)


class SometimesNone(Base):
    def forward(self, x):
        y = x if self.h is None else x + self.h
        self.h = None if x.sum() > 0 else x  # here
        return y


class Deletes(Base):
    def forward(self, x):
        y = x + self.h
        del self.h  # here
        return y


class OneTensorAtFirst(Base):
    def __init__(self):
        super().__init__(initial=torch.zeros(2, 3))
        self.h = self.initial

    def forward(self, x):
        self.h = self.h + x  # here
        return self.h + self.initial


class ReadsDict(Base):
    def forward(self, x):
        self.n = self.n + 1
        return x * self.__dict__["n"]


class WritesClass(Base):
    calls = torch.zeros(())

    def forward(self, x):
        WritesClass.calls = WritesClass.calls + 1  # here
        return x * WritesClass.calls


class KeepsAnObject(Base):
    def forward(self, x):
        self.kept = PlainObject  # here
        return x


REFUSED = {
    "none": (StartsAsNone(h=None), "self.h is None .* and a tensor"),
    "none that the class has too": (ShadowsNone(h=None), "self.h is None .* and a tensor"),
    "missing": (StartsMissing(), "self.h is missing .* and a tensor"),
    "int to float": (BecomesFloat(n=0), "self.n is an int before the call and 0.5"),
    "dtype": (ChangesDtype(h=torch.zeros(2, 3)), "self.h is a tensor of torch.float32 .* and a tensor of torch.float64"),
    "text": (ChangesText(mode="a"), "self.mode is 'a'"),
    "growing list": (Logs(log=[]), "self.log has another structure"),
    "none on one path": (SometimesNone(h=torch.zeros(2, 3)), "self.h is a tensor .* and None"),
    "delete": (Deletes(h=torch.zeros(2, 3)), "self.h is a tensor .* and deleted"),
    "one tensor at first": (OneTensorAtFirst(), "self.h is the same object as self.initial"),
    "class": (WritesClass(), "WritesClass.calls"),
    "object": (KeepsAnObject(kept=None), "exists only in this process"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_state_that_no_saved_program_is_right_for(name, path):
    model, message = REFUSED[name]
    path.write_bytes(b"old")
    with pytest.raises(SaveError, match=message) as caught:
        dy2st.save(model, path, PAIR)
    assert f"test_loaded_models.py:{line_marked(model)}: " in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_state_that_is_read_through_its_dict(path):
    follow(ReadsDict(n=0), path, PAIR)


def test_after_one_call_the_state_has_its_type(path):
    model = StartsAsNone(h=None)
    model(BATCHES[0])
    follow(model, path, PAIR)


def test_variables_of_others_are_refused(path):
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x * n

    with pytest.raises(SaveError, match=r"test_loaded_models.py:\d+: .*count changes the variable n of an enclosing function"):
        dy2st.save(count, path, ROWS)


# -- modes -----------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(4, 3)
        self.embedding = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embedding.weight
        self.first.bias.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((1,), 1.5))
        self.register_buffer("hidden", torch.full((1,), 1.5), persistent=False)

    def forward(self, x):
        y = self.drop(self.norm(self.first(x)))
        if y.sum() > 0:
            y = y * self.scale
        return self.out(self.second(y)) * self.hidden


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_loaded_model_trains_on(optimizer, path):
    model = Net()
    loaded = save_and_load(model, path)
    both = (model, loaded)
    optimizers = [optimizer(one.parameters(), lr=0.01) for one in both]
    for step in range(4):
        for one, of_one in zip(both, optimizers):
            torch.manual_seed(step)
            of_one.zero_grad()
            one(BATCHES[step]).square().mean().backward()
            of_one.step()
    same(dict(model.state_dict()), dict(loaded.state_dict()))
    same(model.eval()(BATCHES[4]), loaded.eval()(BATCHES[4]))


def test_names_order_and_sharing(path):
    model = Net()
    loaded = save_and_load(model, path)
    assert list(loaded.state_dict()) == list(model.state_dict())
    assert [n for n, _ in loaded.named_buffers()] == [n for n, _ in model.named_buffers()]
    expected = [(name, p.requires_grad) for name, p in model.named_parameters()]
    assert [(name, p.requires_grad) for name, p in loaded.named_parameters()] == expected
    assert loaded.out.weight is loaded.embedding.weight
    loaded.load_state_dict(Net().state_dict())
    model.load_state_dict(loaded.state_dict())
    same(model.eval()(BATCHES[0]), loaded.eval()(BATCHES[0]))


def test_submodules_keep_their_training_flags(path):
    model = Net()
    model.norm.eval()
    loaded = save_and_load(model, path)
    assert (model.training, model.norm.training, model.drop.training) == (True, False, True)
    same(*(seeded(one, BATCHES[0]) for one in (model, loaded)))
    same(model.norm.running_mean, loaded.norm.running_mean)
    assert loaded.modes == ("train", "eval")
    assert not save_and_load(model.eval(), path).training


def seeded(model, x):
    torch.manual_seed(0)
    return model(x)


def test_one_program_where_both_modes_are_the_same(path):
    loaded = save_and_load(Recurrent(h=torch.zeros(2, 3)), path, PAIR)
    assert loaded.modes == ("train", "eval")
    assert len(loaded.programs) == 1


class HookInTraining(Base):
    def forward(self, x):
        if self.training:
            x.register_hook(print)  # here
        return self.layer(x)


def test_a_mode_that_cannot_be_saved_is_not_silent(path):
    model = HookInTraining().eval()
    with pytest.warns(
        UserWarning, match=r"saved for evaluation mode only; .* training mode: SaveError: .*test_loaded_models.py:\d+"
    ) as seen:
        dy2st.save(model, path, ROWS)
    assert seen[0].filename == __file__
    assert not model.training
    loaded = dy2st.load(path)
    assert loaded.modes == ("eval",)
    with pytest.warns(UserWarning, match="saved for eval mode only"):
        loaded.train()
    with pytest.raises(SaveError, match=r"test_loaded_models.py:\d+: the program calls the Python function Tensor.register_hook"):
        dy2st.save(model.train(), path, ROWS)


# -- arguments -------------------------------------------------------------------------------------------------------


CLOSURE = torch.arange(3.0)


def function(x, y=None, *, scale=2.0, flag=True):
    if x.sum() > 0:
        x = x + CLOSURE
    if y is not None:
        x = x + y
    return {"x": x * scale, "rest": (None, 3, "text", flag)}


def test_arguments_by_name_and_defaults(path):
    loaded = save_and_load(dy2st.to_static(function), path)
    x = BATCHES[0]
    for found in (loaded(x), loaded(x=x), loaded(x, None, scale=2.0), loaded(x, flag=True)):
        same(function(x), found)
    assert list(loaded.state_dict()) == []
    for arguments, message in [
        (dict(x=x, scale=3.0), "scale must be 2.0, which is a constant"),
        (dict(), "missing its argument x"),
        (dict(x=x, y=x), "y must be None"),
        (dict(x=x, z=1), "unexpected keyword argument 'z'"),
        (dict(x=x.double()), "x must be a tensor f32"),
    ]:
        with pytest.raises(SignatureError, match=message):
            loaded(**arguments)


def test_saved_like_the_calls_so_far(path):
    @dy2st.to_static
    def add(x, *rest, z, **named):
        return x + sum(rest) + z + sum(named.values())

    with pytest.raises(SignatureError, match="was never called; pass input_spec"):
        dy2st.save(add, path)
    x = BATCHES[0]
    add(x, x, x, z=x, more=x)
    with torch.no_grad():
        add(x, x, x, z=x, more=x)
    same(x * 5, save_and_load(add, path, None)(x, x, x, z=x, more=x))
    add(x, z=x)
    with pytest.raises(SignatureError, match="was called in 2 ways"):
        dy2st.save(add, path)


def test_an_object_among_the_arguments_is_refused(path):
    @dy2st.to_static
    def read(x, options):
        return x * options.n

    with pytest.raises(SaveError, match="argument options of .*read is a PlainObject"):
        dy2st.save(read, path, [InputSpec([3]), PlainObject()])
    read(BATCHES[0], PlainObject())
    with pytest.raises(SaveError, match="argument options of .*read is a PlainObject"):
        dy2st.save(read, path)


def test_nested_arguments_and_tensors_as_specifications(path):
    def nested(tables, pairs, n):
        return tables["a"] * n + pairs[0][1]

    loaded = save_and_load(nested, path, [{"a": InputSpec([None])}, [(torch.zeros(1), torch.zeros(3))], 2])
    arguments = ({"a": torch.ones(3)}, [(torch.ones(1), torch.ones(3))], 2)
    same(nested(*arguments), loaded(*arguments))


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Result:
    value: torch.Tensor
    steps: int
    note: Any = None


def test_results_of_any_structure_come_back(path):
    def results(x):
        steps = 0
        while steps < x.sum():
            steps += 1
        return Pair(x, [x + 1, {"steps": steps, 2: None}]), Result(x, steps, (True, 1.5, "text")), torch.max(x, 1), x.shape

    loaded = save_and_load(results, path)
    for x in BATCHES:
        (pair, result, best, shape), expected = loaded(x), results(x)
        same(expected[0].right, pair.right)
        assert type(pair).__name__ == "Pair" and pair.left is x
        assert (result.steps, result.note) == (expected[1].steps, expected[1].note)
        same(expected[2:], (best, shape))
    assert save_and_load(lambda x: None, path)(x) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_models_of_any_dtype_are_saved(dtype, path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(dtype)
    follow(model, path, [InputSpec([None, 3], dtype)], [x.to(dtype) for x in BATCHES])


def test_another_dtype_after_loading(path):
    model = Net().eval()
    loaded = save_and_load(model, path)
    same(model.double()(BATCHES[0].double()), loaded.to(torch.float64)(BATCHES[0].double()))


def test_the_default_dtype_of_the_capture(path):
    def make(x):
        return torch.zeros(2) + torch.full((2,), 1.5), torch.tensor([1, 2]) / 2

    torch.set_default_dtype(torch.float64)
    expected = make(0)
    dy2st.save(make, path, [InputSpec([1], "int64")])
    torch.set_default_dtype(torch.float32)
    same(expected, dy2st.load(path)(torch.tensor([0])))
    assert torch.get_default_dtype() == torch.float32


class OneMode(nn.Module):
    """Where the other mode cannot be chosen."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(2, 2)

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            raise ValueError("for training only")
        return self

    def forward(self, x):
        return self.part(x)


def test_a_mode_that_cannot_be_chosen_leaves_the_module_as_it_was(path):
    model = OneMode()
    with pytest.warns(UserWarning, match="for training mode only; .* ValueError: for training only"):
        dy2st.save(model, path, [InputSpec([2])])
    assert model.training and model.part.training
    with pytest.raises(ValueError, match="for training only"):
        dy2st.save_inference_model(path, model, input_spec=[InputSpec([2])])
    assert model.training and model.part.training
    same(dy2st.load(path)(torch.ones(2)), model(torch.ones(2)))


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.parts = nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, x):
        return self.parts[0](self.first(x))


@pytest.mark.parametrize("place", ["", "parts.0"])
def test_a_module_that_holds_itself_is_refused(path, place):
    model = Layered()
    holder = model.get_submodule(place)
    holder.up = holder
    words = "parts.0.up is parts.0 itself" if place else "up is the module itself"
    with pytest.warns(UserWarning, match="RecursionError"), pytest.raises(SaveError, match=words):
        dy2st.save(model, path, [InputSpec([2])])
    assert model.training and holder.training


def test_questions_about_the_mode_of_the_call_are_not_silent(path):
    def asks(x):
        return x + 1 if torch.is_grad_enabled() and not x.requires_grad else x - 1

    with pytest.warns(UserWarning, match=r"test_loaded_models.py:\d+: this asks whether") as seen:
        dy2st.save(asks, path, ROWS)
    assert len(seen) == 2
    assert {one.filename for one in seen} == {__file__}
    same(asks(BATCHES[0]), dy2st.load(path)(BATCHES[0]))


@pytest.mark.parametrize(
    "layer",
    [
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, enable_nested_tensor=False),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.MultiheadAttention(4, 2, batch_first=True),
        nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.ReLU()),
        nn.LSTM(4, 4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_layers_of_torch_ask_is_no_question_of_the_model(layer, path):
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = layer.eval(), 0

        def forward(self, x):
            self.calls += 1
            x = x * self.calls
            return self.layer(x, x, x) if isinstance(self.layer, nn.MultiheadAttention) else self.layer(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dy2st.save(Around().eval(), path, [InputSpec([None, 3, 4])])


def test_a_question_of_a_model_with_layers_of_torch_is_told(path):
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            y = self.layer(x, x, x)[0]
            return y + 1 if torch.is_grad_enabled() else y  # here

    model = Asks()
    with pytest.warns(
        UserWarning, match=rf"test_loaded_models.py:{line_marked(model)}: this asks whether gradients are enabled"
    ) as seen:
        dy2st.save(model, path, [InputSpec([None, 3, 4])])
    assert len(seen) == 1


def test_the_modes_of_the_thread_are_not_saved(path):
    model = nn.Linear(3, 3)
    for mode in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)):
        with mode:
            dy2st.save(model, path, ROWS)
        same(model(BATCHES[0]), dy2st.load(path)(BATCHES[0]))


def test_inputs_keep_the_names_of_their_specifications(path):
    loaded = save_and_load(nn.Linear(3, 3), path, [InputSpec([None, 3], name="images")])
    assert [slot.name for slot in loaded.program.inputs] == ["images"]
    same(loaded(BATCHES[0]), loaded(input=BATCHES[0]))


# -- what is saved ----------------------------------------------------------------------------------------------------


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.static = dy2st.to_static(Recurrent(h=torch.zeros(2, 3)))
        self.table = nn.ModuleDict({"a-b": nn.Linear(3, 3), "c[0]": nn.BatchNorm1d(3)})

    @dy2st.to_static
    def encode(self, x, times=2):
        return self.table["a-b"](x) * times

    def forward(self, x):
        return self.table["c[0]"](self.encode(x)) + self.static(x)


def test_static_submodules_and_methods(path):
    model = Partly()
    follow(model, path, PAIR)
    assert list(save_and_load(model.static, path, PAIR).state_dict()) == ["layer.weight", "layer.bias"]
    method = save_and_load(model.encode, path)
    same(model.encode(BATCHES[0]), method(x=BATCHES[0]))
    assert list(method.state_dict()) == list(model.state_dict())


def test_a_method_of_a_plain_object(path):
    class Scaler:
        def __init__(self):
            self.n = 0

        def step(self, x):
            self.n += 1
            return x * self.n

    scaler = Scaler()
    loaded = save_and_load(dy2st.to_static(scaler.step), path)
    for x in BATCHES:
        same(scaler.step(x), loaded(x))


class Scale:
    def __init__(self):
        self.weight = torch.full((3,), 2.0)

    def __call__(self, x):
        return x * self.weight

    @dy2st.to_static
    @classmethod
    def of_class(cls, x):
        return x * 4

    @staticmethod
    def of_nobody(x):
        return x * 3


@pytest.mark.parametrize("function", [Scale(), Scale.of_class, Scale.of_nobody, Scale().__call__, dy2st.to_static(Scale())])
def test_everything_that_is_called(function, path):
    loaded = save_and_load(function, path)
    same(function(BATCHES[0]), loaded(BATCHES[0]))


def test_forward_hooks_are_saved(path):
    model = Recurrent(h=torch.zeros(2, 3))
    model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model.register_forward_hook(lambda module, args, out: out + 1)
    model.layer.register_forward_hook(lambda module, args, out: out * 3)
    follow(model, path, PAIR)


def test_old_weight_norm_leaves_no_abstract_value_behind(path):
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 3)))
    loaded = save_and_load(model, path)
    assert type(model[0].weight) is torch.Tensor
    for _ in range(3):
        same(model(BATCHES[0]), loaded(BATCHES[0]))
    same(dict(model.state_dict()), dict(loaded.state_dict()))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class UsesFunction(Base):
    def forward(self, x):
        return Doubled.apply(self.layer(x))


class DoublesInputs(Base):
    def forward(self, x):
        return self.layer(Doubled.apply(x))


@pytest.mark.parametrize("model", [UsesFunction(), DoublesInputs()], ids=repr)
def test_a_function_with_a_backward_of_its_own_is_saved(model, path):
    follow(model, path, ROWS)


class Counted(torch.autograd.Function):
    calls: ClassVar[list[int]] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Counted.calls.append(1)
        return grad * 2


class UsesCounted(Base):
    def forward(self, x):
        return Counted.apply(self.layer(x))


def test_a_backward_that_writes_outside_of_itself_is_not_saved(path):
    model = UsesCounted()
    dy2st.to_static(model)(torch.ones(2, 3)).sum().backward()
    assert Counted.calls == [1]
    with pytest.raises(CaptureError, match=r"Counted writes .* in its backward"):
        dy2st.save(model, path, ROWS)


class UsesHook(Base):
    def forward(self, x):
        x = x + 1
        x.register_hook(print)  # here
        return x


class UsesGenerator(Base):
    def forward(self, x):
        return x + torch.rand(3, generator=self.generator)  # here


@pytest.mark.parametrize("model", [UsesHook(), UsesGenerator(generator=torch.Generator())], ids=repr)
def test_what_only_exists_in_this_process(model, path):
    path.write_bytes(b"old")
    with pytest.raises(SaveError, match=rf"test_loaded_models.py:{line_marked(model)}: .* exists only in this process"):
        dy2st.save(model, path, ROWS)
    assert path.read_bytes() == b"old"


def test_saving_in_several_threads(path):
    model = Net()
    model.norm.eval()
    with ThreadPoolExecutor(3) as pool:
        saved = [pool.submit(dy2st.save, model, path.with_suffix(f".{n}"), ROWS) for n in range(4)]
    for one in saved:
        one.result()
    assert len({path.with_suffix(f".{n}").read_bytes() for n in range(4)}) == 1
    assert (model.training, model.norm.training) == (True, False)


def test_a_buffer_registered_in_forward_is_refused(path):
    class Registers(Base):
        def forward(self, x):
            self.register_buffer("mean", x.mean(0))
            return x - self.mean

    model = Registers()
    with pytest.raises(dy2st.SaveError, match="mean is missing before the call"):
        dy2st.save(model, path, ROWS)
    assert list(model.buffers()) == []


# -- files -----------------------------------------------------------------------------------------------------------


def test_one_model_gives_the_same_bytes_under_any_path(tmp_path):
    model = Net()
    plain, odd = tmp_path / "a", str(tmp_path / "ä ö 漢.dy2st")
    for path in (plain, odd, plain):
        dy2st.save(model, path, ROWS)
    assert plain.read_bytes() == Path(odd).read_bytes()
    dy2st.load(odd).save(tmp_path / "again")
    dy2st.save(dy2st.load(odd), tmp_path / "third")
    assert (tmp_path / "again").read_bytes() == plain.read_bytes() == (tmp_path / "third").read_bytes()
    dy2st.save(nn.Linear(3, 3), plain, ROWS)
    assert list(dy2st.load(plain).state_dict()) == ["weight", "bias"]
    with pytest.raises(SaveError, match="cannot write"):
        dy2st.save(model, tmp_path / "missing" / "model", ROWS)
    with pytest.raises(SignatureError, match="not a int"):
        dy2st.save(3, plain, ROWS)


def test_copies_of_a_loaded_model_are_independent(path):
    loaded = save_and_load(Recurrent(h=torch.zeros(2, 3)), path, PAIR)
    copied = copy.deepcopy(loaded)
    with torch.no_grad():
        loaded.layer.weight.zero_()
    loaded(BATCHES[0])
    fresh = dy2st.load(path)
    same(fresh(BATCHES[1]), copied(BATCHES[1]))


def test_loads_without_the_source_and_without_dy2st(path, tmp_path):
    model = Counter(n=0)
    dy2st.save(model, path, PAIR)
    torch.save(BATCHES, tmp_path / "batches.pt")
    script = tmp_path / "elsewhere" / "host.py"
    script.parent.mkdir()
    script.write_text(
        textwrap.dedent(
            """
            import sys

            class Forbidden:
                def find_spec(self, name, path=None, target=None):
                    if name.split(".")[0] in ("dy2st", "gast", "astor", "tests"):
                        raise ImportError(f"{name} is not here")

            sys.meta_path.insert(0, Forbidden())
            import torch
            import dy2st_runtime

            loaded = dy2st_runtime.load(sys.argv[1])
            torch.save([loaded(x) for x in torch.load(sys.argv[2])], sys.argv[3])
            """
        )
    )
    runtime = Path(dy2st.__file__).parents[1] / "runtime"
    arguments = [script, path, tmp_path / "batches.pt", tmp_path / "out.pt"]
    environment = {**os.environ, "PYTHONPATH": str(runtime)}
    subprocess.run([sys.executable, *arguments], check=True, cwd=script.parent, env=environment)
    same([model(x) for x in BATCHES], torch.load(tmp_path / "out.pt"))


def test_an_exception_with_an_object_of_this_process_is_saved_with_its_text(tmp_path):
    class Checked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            assert x.sum() > 0, self.layer
            if x.sum() > 100:
                raise ValueError(self.layer)
            return self.layer(x)

    model = Checked()
    dy2st.save(model, tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([3], "float32")])
    loaded = dy2st.load(tmp_path / "model.dy2st")
    for kind, x in ((AssertionError, -torch.ones(3)), (ValueError, torch.full((3,), 50.0))):
        with pytest.raises(kind) as found:
            loaded(x)
        assert str(found.value) == str(model.layer)


class ReplacedOrWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache, self.rows = {"k": torch.zeros(2)}, [[torch.zeros(2)], [torch.ones(2)]]

    def forward(self, x):
        if x.sum() > 0:
            self.cache = {"k": x}
            self.rows[0] = [x * 2]
        else:
            self.cache["k"] = self.cache["k"] + x
            self.rows[0][0] = self.rows[0][0] - x
        return self.cache["k"] + self.rows[0][0] + self.rows[1][0]


@pytest.mark.parametrize("backend", ["python", "native"])
def test_containers_that_are_replaced_or_written(tmp_path, backend):
    eager, inputs = (
        ReplacedOrWritten(),
        [torch.tensor(v) for v in ([1.0, 2.0], [-1.0, -2.0], [-1.0, -3.0], [3.0, 3.0], [-1.0, 0.0])],
    )
    dy2st.save(ReplacedOrWritten(), tmp_path / "model.dy2st", [inputs[0]])
    loaded = dy2st.load(tmp_path / "model.dy2st", backend=backend)
    for x in inputs:
        assert torch.equal(eager(x), loaded(x))
        assert torch.equal(eager.cache["k"], loaded.cache["k"])


class _Aliased(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = types.SimpleNamespace(h=torch.tensor([1.0, 2.0]))
        self.register_buffer("b", self.held.h)

    def forward(self, x):
        self.held.h = x
        return self.b


def test_another_name_of_a_buffer_is_not_the_buffer(tmp_path):
    with pytest.raises(dy2st.SaveError, match="is the same object as b before the call"):
        dy2st.save(_Aliased(), tmp_path / "m.dy2st", input_spec=[dy2st.InputSpec([2])])


class _Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0
        self.layer.bias.requires_grad_(False)
        self.register_buffer("sum", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        self.sum += x.sum()
        return self.layer(x) + self.sum if x.sum() > 0 else x * self.calls


def _pickled(model):
    return pickle.loads(pickle.dumps(model))


def _through_torch(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [_pickled, _through_torch, copy.deepcopy], ids=["pickle", "torch.save", "deepcopy"])
def test_a_loaded_model_is_copied_with_its_state(copied, tmp_path):
    dy2st.save(_Counted(), tmp_path / "m.dy2st", input_spec=[InputSpec([None, 2])])
    loaded = dy2st.load(tmp_path / "m.dy2st", max_steps=50)
    loaded(torch.ones(3, 2))
    other = copied(loaded)
    for x in (-torch.ones(1, 2), torch.ones(2, 2)):
        assert torch.equal(other(x), loaded(x))
    assert (other.calls, other.sum, other.training) == (loaded.calls, loaded.sum, loaded.training)
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in loaded.parameters()]
    other(torch.ones(1, 2))
    assert other.calls == loaded.calls + 1


class _Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls, self.last = self.calls + 1, x * 2
        return x + self.calls if x.sum() > 0 else x


def test_parts_of_a_sequence_keep_what_they_write(tmp_path):
    eager = nn.Sequential(_Step(), nn.Sequential(_Step()))
    dy2st.save(eager, tmp_path / "m.dy2st", input_spec=[InputSpec([None, 2])])
    loaded = dy2st.load(tmp_path / "m.dy2st")
    for x in (torch.ones(1, 2), -torch.ones(1, 2), torch.ones(2, 2)):
        assert torch.equal(loaded(x), eager(x))
        first, inner = loaded.get_submodule("0"), loaded.get_submodule("1.0")
        assert first.calls == eager[0].calls and torch.equal(inner.last, eager[1][0].last)
