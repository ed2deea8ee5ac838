"""What `to_static` was given is one object, which stays with the function through binding, copies, pickles and saving."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, SignatureError, to_static
from dy2st.options import Options
from dy2st_runtime.primitives import control


def unchanged(program: Any) -> Any:
    return program


class Net(nn.Module):
    @to_static(passes=[unchanged], unroll=False)
    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = x + 1
        return x


def has_loop(program: Any) -> bool:
    return any(node.target is control.while_ for node in program.nodes())


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        to_static(unchanged).options.unroll = 3  # type: ignore[misc]


@pytest.mark.parametrize("given", [{"full_graph": 1}, {"passes": "ab"}, {"unroll": -1}, {"unroll": "all"}, {"input_spec": 3}])
def test_options_that_make_no_sense_are_refused_where_they_are_made(given: dict[str, Any]) -> None:
    with pytest.raises(SignatureError, match=next(iter(given))):
        Options(**given)


def test_what_is_bound_copied_or_pickled_has_the_options_of_the_function() -> None:
    net = Net()
    for other in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.forward.options == Net.forward.options
        assert has_loop(other.forward.program(torch.ones(2)))


def test_a_model_that_is_saved_with_a_specification_keeps_its_other_options(tmp_path: Any) -> None:
    dy2st.save(Net(), tmp_path / "model", [InputSpec([None])])
    loaded = dy2st.load(tmp_path / "model")
    assert has_loop(loaded.program)
    assert loaded(torch.zeros(2)).tolist() == [3, 3]
