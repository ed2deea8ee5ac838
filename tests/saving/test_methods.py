"""Several methods of a model in one archive, and what else an archive says about a model."""

from __future__ import annotations

import copy
import zipfile

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, LoadError, SaveError, SignatureError
from tests.oracle import same

ROWS = [InputSpec([None, 3])]
X = torch.linspace(-1, 2, 12).reshape(4, 3)


class Seq(nn.Module):
    """Encodes and generates."""

    def __init__(self):
        super().__init__()
        self.table = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.steps = 0
        self.h = torch.zeros(3)

    def forward(self, x):
        self.h = self.h + x.detach().mean(0)
        return self.drop(self.table(x))

    def generate(this, x, count):
        """Repeats itself
        until it is large."""
        this.steps += 1
        outs = []
        for _ in range(int(count)):
            x = torch.tanh(this.table(x)) + this.h
            outs.append(x)
            if x.sum() > 4:
                break
        return torch.stack(outs), {"steps": this.steps, "last": x}

    def reset(self):
        self.h = torch.zeros(3)
        self.steps = 0


SPECS = {"forward": ROWS, "generate": [InputSpec([None, 3]), InputSpec([], "int64")], "reset": []}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


@pytest.mark.parametrize("training", [False, True])
def test_methods_share_their_state(path, training):
    eager = Seq().train(training)
    dy2st.save(copy.deepcopy(eager), path, methods=SPECS)
    loaded = dy2st.load(path)
    assert loaded.methods == ("forward", "generate", "reset") and {"generate", "reset"} <= set(dir(loaded))
    for mode in (training, not training):
        eager.train(mode), loaded.train(mode)
        for count in (1, 3, 2):
            for model in (eager, loaded):
                torch.manual_seed(count)
                model.found = [model(X * count), model.generate(X, torch.tensor(count))]
            same(eager.found, loaded.found)
        eager.reset(), loaded.reset()
        same([eager.h, eager.steps], [loaded.h, loaded.steps])


def test_gradients_through_every_method(path):
    eager = Seq()
    dy2st.save(eager, path, methods=SPECS)
    loaded = dy2st.load(path)
    for model in (eager, loaded):
        model.eval()
        (model(X).sum() + model.generate(X, torch.tensor(2))[0].sum()).backward()
    same(eager.table.weight.grad, loaded.table.weight.grad)


def test_weights_are_stored_once(path, tmp_path):
    model = nn.Module()
    model.__class__ = type("Two", (Big,), {})
    Big.__init__(model)
    dy2st.save(model, path, methods={"forward": [InputSpec([None, 256])], "again": [InputSpec([None, 256])]})
    assert path.stat().st_size < 256 * 256 * 4 * 1.2


class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, x):
        return self.layer(x)

    def again(self, x):
        return self.layer(self.layer(x))


def test_saved_again_it_is_the_same(path, tmp_path):
    dy2st.save(Seq(), path, methods=SPECS, example_inputs={"generate": (X, torch.tensor(2))}, about={"licence": "free\x01 \u00e9"})
    dy2st.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    dy2st.save(dy2st.load(path), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    copied = copy.deepcopy(dy2st.load(path))
    same(copied.generate(X, torch.tensor(1)), dy2st.load(path).generate(X, torch.tensor(1)))


def test_a_model_can_be_saved_without_forward(path):
    dy2st.save(Seq(), path, methods={"generate": SPECS["generate"]})
    loaded = dy2st.load(path)
    same(Seq().generate(X, torch.tensor(2))[0].shape, loaded.generate(X, torch.tensor(2))[0].shape)
    assert loaded.program.name == "Seq.generate"
    with pytest.raises(SignatureError, match="saved without forward; call one of its methods: generate"):
        loaded(X)
    assert not hasattr(loaded, "reset")


def test_what_is_said_about_a_model(path):
    dy2st.save(Seq(), path, methods=SPECS, about={"author": "me"})
    about = dy2st.load(path).about
    assert about["documentation"] == "Encodes and generates." and about["author"] == "me"
    assert about["documentation of generate"] == "Repeats itself\nuntil it is large."


def test_examples_come_back_as_they_were(path):
    nest = {"a": [X[:, :2].T, X]}  # views and strides come back as values
    model = Nest()
    dy2st.save(model, path, [{"a": [InputSpec([2, None]), InputSpec([None, 3])]}, InputSpec([3])], example_inputs=(nest, X[0]))
    (args, kwargs) = dy2st.load(path).examples["forward"]
    same(args, (nest, X[0])), same(kwargs, {})
    same(model(*args), dy2st.load(path)(*args))
    dy2st.save(model, path, [nest, X[0]])
    assert dy2st.load(path).examples == {}
    assert "examples.safetensors" not in zipfile.ZipFile(path).namelist()


class Nest(nn.Module):
    def forward(self, table, y):
        return table["a"][0].sum() + table["a"][1] * y


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": {}}, "at least one method"),
        ({"methods": ["forward"]}, "by the name of the method"),
        ({"methods": {"missing": ROWS}}, "Seq has no method missing"),
        ({"methods": {"table": ROWS}}, "Seq has no method table"),
        ({"methods": {"forward": ROWS}, "input_spec": ROWS}, "leave input_spec out"),
        ({"input_spec": ROWS, "example_inputs": X}, "a sequence of arguments, not a Tensor"),
        ({"input_spec": ROWS, "example_inputs": (X, X)}, "too many positional"),
        ({"input_spec": ROWS, "example_inputs": (X.double(),)}, "must be a tensor f32"),
        ({"input_spec": ROWS, "example_inputs": {"generate": (X,)}}, "examples for generate, which is not saved"),
        ({"input_spec": ROWS, "about": {"n": 1}}, "about gives texts by name"),
    ],
)
def test_arguments_that_make_no_sense(path, options, message):
    with pytest.raises(SignatureError, match=message):
        dy2st.save(Seq(), path, **options)
    assert not path.exists()


class Hiding(Seq):
    def train_step(self, x):
        return x + 1

    def _private(self, x):
        return x + 1

    def double(self, x=True):
        return x * 2


@pytest.mark.parametrize("name", ["_private", "double"])
def test_names_that_would_hide_something(path, name):
    with pytest.raises(SaveError, match="would hide another attribute of the module"):
        dy2st.save(Hiding(), path, methods={"forward": ROWS, name: ROWS})
    dy2st.save(Hiding(), path, methods={"forward": ROWS, "train_step": ROWS})
    same(dy2st.load(path).train_step(X), X + 1)


class OneMode(Seq):
    def infer(self, x):
        if self.training:
            raise RuntimeError("call eval() first")
        return self.table(x)


def test_a_mode_that_a_method_does_not_have(path):
    with pytest.warns(UserWarning, match="saved for evaluation mode only"):
        dy2st.save(OneMode().eval(), path, methods={"forward": ROWS, "infer": ROWS})
    with pytest.warns(UserWarning, match="forward, infer of this model was saved for eval mode only"):
        dy2st.load(path).train()


def test_other_archives_are_refused_with_their_reason(path):
    import json

    from tests.runtime.test_archive import members, rewrite

    dy2st.save(Seq(), path, methods=SPECS)
    original = path.read_bytes()
    for change, message in [
        (lambda d: d["methods"].update({"train": d["programs"]}), "a method 'train'"),
        (lambda d: d["methods"].update({"h": d["programs"]}), "a method 'h'"),
        (lambda d: d["methods"].update({"a b": d["programs"]}), "a method 'a b'"),
        (lambda d: d["methods"].update({"x": []}), "at least one program"),
        (lambda d: d.update({"methods": {}, "programs": []}), "at least one program"),
        (lambda d: d.update({"examples": {"forward": {"leaf": 0}}}), "arguments whose tensors are there"),
        (lambda d: d.update({"examples": {"forward": {"const": 1}}}), "expected arguments"),
    ]:
        path.write_bytes(original)
        document = json.loads(members(path)["program.json"])
        change(document)
        rewrite(path, program_json=json.dumps(document).encode())
        with pytest.raises(LoadError, match=message):
            dy2st.load(path)


class Resetting(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.mode = "a"

    def forward(self, x):
        if self.training:
            self.n += 1
        else:
            self.n = 0
        return x + 1


def test_a_mode_that_writes_what_was_there_already(path):
    dy2st.save(Resetting().eval(), path, [InputSpec([2])])
    loaded, x = dy2st.load(path), torch.ones(2)
    loaded.train()
    loaded(x), loaded(x)
    assert loaded.n == 2
    loaded.eval()(x)
    assert loaded.n == 0


@pytest.mark.parametrize("old", [0, 2.5, True, "text", None])
def test_writing_what_is_there_already_is_a_write(old):
    class Sets(nn.Module):
        def forward(self, x):
            self.value = old
            if x.sum() > 0:
                self.other = old
            return x

    model = Sets()
    model.value = model.other = old
    model = dy2st.to_static(model)
    for other in (old, 7, "b", old, None, 8):
        model.value = model.other = other
        model(torch.ones(2))
        assert (model.value, model.other) == (old, old) and type(model.value) is type(old)


def test_the_program_of_forward_alone(path):
    from dy2st_runtime.archive import archive

    dy2st.save(Seq(), path, methods=SPECS)
    programs, state = archive.read(path)
    assert [program.name for program in programs] == ["Seq.forward"] * 2 and "table.weight" in {entry.name for entry in state}
    dy2st.save(Seq(), path, methods={"reset": []})
    with pytest.raises(LoadError, match="has no forward; it has reset"):
        archive.read(path)
