"""Models for inference alone, traces, and the names that users of Paddle know."""

from __future__ import annotations

import collections
import copy

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, SaveError, SignatureError
from tests.oracle import same

X = torch.linspace(-2, 2, 12).reshape(3, 4)
SPEC = [InputSpec([None, 4])]
Boxes = collections.namedtuple("Boxes", "corners scores")


class Heads(nn.Module):
    """Several results, some of which need much."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.big = nn.Linear(4, 64)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.calls = 0

    def forward(self, x):
        y = self.drop(self.norm(self.body(x)))
        weight = torch.softmax(self.scale, 0) * 3
        steps = 0
        while y.abs().sum() > 4:
            y = y * 0.5
            steps += 1
        self.calls = self.calls + 1
        noise = torch.rand(3)
        return {"y": y * weight, "big": [self.big(y), noise], "boxes": Boxes(y + 1, y.sum()), "steps": steps}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


@pytest.fixture
def eager():
    return Heads().eval()


def names(model):
    return [str(node.target) for program in model.programs for node in program.nodes()]


def test_one_result_needs_only_its_part_of_the_model(path, eager):
    expected = copy.deepcopy(eager)(X)
    dy2st.save_inference_model(path, eager.train(), ["y"], SPEC)
    assert eager.training and eager.drop.training and eager.calls == 0
    loaded = dy2st.load(path)
    for _ in range(2):
        (found,) = loaded(X)
        same(expected["y"].detach(), found.detach())
    assert loaded.calls == 2 and loaded.modes == ("eval",)
    assert not {"aten.rand.default", "aten.softmax.int"} & set(names(loaded)), names(loaded)
    assert not any(name.startswith(("big", "scale")) for name in loaded.state_dict())
    assert "while_" in names(loaded)


@pytest.mark.parametrize(
    ("fetch", "pick"),
    [
        (["y", "steps"], lambda r: (r["y"], r["steps"])),
        (["steps"], lambda r: (r["steps"],)),
        (["big.0"], lambda r: (r["big"][0],)),
        (["boxes"], lambda r: (tuple(r["boxes"]),)),
        (["boxes.scores", "boxes.0"], lambda r: (r["boxes"][1], r["boxes"][0])),
        (["y", "y"], lambda r: (r["y"], r["y"])),
    ],
)
def test_results_are_fetched_by_position_and_name(path, eager, fetch, pick):
    expected = pick(copy.deepcopy(eager)(X))
    dy2st.save_inference_model(path, eager, fetch, SPEC)
    found = dy2st.load(path)(X)
    found = tuple(tuple(part) if isinstance(part, tuple) else part for part in found)
    same(expected, found)


@pytest.mark.parametrize("fetch", [["z"], ["big.2"], ["y.0"], [7], ["boxes.labels"], [""]])
def test_results_that_are_not_there(path, eager, fetch):
    with pytest.raises(SaveError, match="has no result"):
        dy2st.save_inference_model(path, eager, fetch, SPEC)
    assert not path.exists()


@pytest.mark.parametrize("fetch", [[], "y", [1.5], [None]])
def test_what_is_no_list_of_results(path, eager, fetch):
    with pytest.raises(SignatureError, match="fetch is a list"):
        dy2st.save_inference_model(path, eager, fetch, SPEC)


def test_without_fetch_the_model_returns_what_it_returns(path, eager):
    dy2st.save_inference_model(path, eager, input_spec=SPEC)
    loaded = dy2st.load(path)
    torch.manual_seed(0)
    expected = eager(X)
    torch.manual_seed(0)
    found = loaded(X)
    same({**expected, "boxes": tuple(expected["boxes"])}, {**found, "boxes": tuple(found["boxes"])})
    assert "aten.rand.default" in names(loaded) and "scale" not in loaded.state_dict()
    dy2st.load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


class Several(nn.Module):
    """Each result needs some of the arguments, through control flow of its own."""

    def forward(self, x, mask, *more, steps=2, pair=None, **named):
        found, tries = mask, 0
        while found.sum() < 3:
            found = found + 1
            tries = tries + steps
        noise = torch.zeros(())
        while x.sum() < 3:
            x = x + named["w"]
            noise = noise + torch.rand(())
        heads = x.sum() * 2 if noise > 0 else pair[0] + x.sum()
        if more[0].sum() > 0:
            print("more")
        return {"found": found, "tries": tries, "x": x, "noise": noise, "heads": heads}


@pytest.mark.parametrize(
    ("fetch", "inputs", "loops"),
    [
        (["found"], "mask", 1),
        (["tries", "found"], "mask", 1),
        (["x"], "x w", 1),
        (["heads"], "x pair.0 pair.1 w", 1),
        (["noise", "tries"], "x mask w", 2),
    ],
)
def test_only_what_is_needed(path, fetch, inputs, loops, capsys):
    x, mask, pair = torch.zeros(2), torch.ones(1), (torch.ones(()), torch.ones(()))
    given = {"x": x, "mask": mask, "pair": pair, "w": torch.tensor(0.5)}

    def called(x, mask, pair, w):
        return Several()(x, mask, torch.ones(()), pair=pair, w=w)

    specs = [InputSpec([2]), InputSpec([1]), (InputSpec([]), InputSpec([])), InputSpec([])]
    dy2st.save_inference_model(path, called, fetch, specs)
    loaded = dy2st.load(path)
    assert [slot.name for slot in loaded.program.inputs] == inputs.split()
    assert names(loaded).count("while_") == loops
    mine = {key: value for key, value in given.items() if any(name.split(".")[0] == key for name in inputs.split())}
    torch.manual_seed(0)
    expected = called(**given)
    torch.manual_seed(0)
    same(tuple(expected[key] for key in fetch), loaded(**mine))
    assert len(loaded(*mine.values())) == len(fetch)
    assert "more" in capsys.readouterr().out
    with pytest.raises(SignatureError):
        loaded(**given, unknown=1)


class Changes(nn.Module):
    """What a call changes is not final, by whatever way."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("other", torch.zeros(2))
        self.fixed = nn.Parameter(torch.ones(2))
        self.h = torch.zeros(2)

    def forward(self, x):
        twice = self.count * 2 + self.other.exp()
        self.count.add_(1)
        view = self.other[:1]
        if x.sum() > 0:
            view += 1
        fresh = self.fixed * 3
        fresh += x
        self.h = self.h + self.fixed * 2
        kept = self.fixed * 5
        return x + twice, fresh, self.h * self.fixed.exp(), kept


def test_state_that_changes_is_not_folded(path):
    eager = Changes()
    dy2st.save_inference_model(path, eager, None, [InputSpec([2])])
    loaded = dy2st.load(path)
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2) * 2):
        same(tuple(part.detach() for part in eager(x)), tuple(part.detach() for part in loaded(x)))
    loaded(torch.ones(2))[3].data.zero_()
    assert loaded(torch.ones(2))[3].tolist() == [5, 5]


def large(x):
    return x + torch.ones(1000, 1000).sum() + torch.ones(3) * 2, torch.zeros(1000, 1000)


def test_what_is_computed_from_nothing_does_not_make_the_file_large(path):
    dy2st.save_inference_model(path, large, None, [InputSpec([3])])
    assert path.stat().st_size < 20_000
    same(large(torch.ones(3)), dy2st.load(path)(torch.ones(3)))


# ---- trace


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x, scale=1.0):
        return self.layers(x) * scale


def test_a_trace_shares_the_parameters_of_the_model(path):
    model = Straight()
    traced = dy2st.trace(model, (X,))
    same(model(X), traced(X))
    assert traced.layers._modules["0"].weight is model.layers[0].weight
    traced(X).sum().backward()
    assert model.layers[0].weight.grad is not None
    traced.save(path)
    same(model(X), dy2st.load(path)(X))
    with pytest.raises(SignatureError):
        traced(X[:2])


def test_trace_refuses_what_has_two_ways():
    with pytest.raises(SaveError, match=r"test_inference.py:\d+: .* has a loop that depends on the data, and a trace has one way"):
        dy2st.trace(Heads(), (X,))
    with pytest.raises(SignatureError, match="a sequence of arguments"):
        dy2st.trace(Straight(), X)


# ---- Paddle's names


def halve(x):
    while x.sum() > 1:
        x = x / 2
    return x


def test_program_translator_gives_outputs_code_and_programs():
    translator = dy2st.ProgramTranslator()
    assert translator is dy2st.ProgramTranslator.get_instance()
    same(halve(X + 3), translator.get_output(halve, X + 3))
    assert "while_stmt" in translator.get_code(halve) and "while" in str(translator.get_program(halve, X))
    same(halve(X + 3), translator.get_func(halve)(X + 3))
    with pytest.raises(SignatureError):
        translator.get_code(3)
    try:
        translator.enable(False)
        assert not dy2st.config.is_enabled()
    finally:
        translator.enable(True)


def test_declarative_is_to_static():
    @dy2st.declarative
    def double(x):
        return x * 2

    assert isinstance(double, dy2st.StaticFunction)
    same(double(X), X * 2)
