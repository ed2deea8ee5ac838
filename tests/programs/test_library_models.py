"""What models of libraries do beside their arithmetic: NumPy's names, grouped heads, results that are dicts, configurations."""

from __future__ import annotations

import collections
import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import dy2st

ONE, MANY = torch.tensor(1), torch.tensor(0)
BACKENDS = ["python", "native"]


def names_of_numpy(x: Any, n: Any) -> Any:
    rows = [x]
    for _ in range(n):
        rows.append(x * 2)
    joined = torch.cat(rows, axis=1), torch.stack(tensors=rows, axis=1)  # type: ignore[call-overload]
    fixed = torch.concat(tensors=[x, x], axis=-1), torch.diff(input=x, axis=0)  # type: ignore[call-overload]
    return joined, fixed, torch.equal(input=x, other=x), torch.allclose(input=x, other=x), torch.resolve_conj(input=x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_torch_take_the_names_that_torch_takes(backend):
    static = dy2st.to_static(names_of_numpy, backend=backend)
    for n in (ONE, MANY, torch.tensor(3)):
        torch.testing.assert_close(static(torch.eye(3), n), names_of_numpy(torch.eye(3), n), rtol=0, atol=0)
    assert len(static.program_cache) == 1


def test_a_parameter_under_two_names_is_refused_as_eager_refuses_it():
    def function(x: Any) -> Any:
        return torch.cat([x, x], dim=0, axis=0)  # type: ignore[call-overload]

    with pytest.raises(TypeError):
        dy2st.to_static(function)(torch.ones(2))


def grouped_or_repeated(q: Any, k: Any, v: Any, n: Any) -> Any:
    options = {}
    if n > 0:
        options["enable_gqa"] = True
    else:
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    return F.scaled_dot_product_attention(q, k, v, **options)


def one_head_or_all(q: Any, k: Any, v: Any, n: Any) -> Any:
    k, v = (k[:, :1], v[:, :1]) if n > 0 else (k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    return F.scaled_dot_product_attention(q, k, v)


def one_query_or_all(q: Any, k: Any, v: Any, n: Any) -> Any:
    if n > 0:
        q = q[:1]
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).reshape(-1, 32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [grouped_or_repeated, one_head_or_all, one_query_or_all])
def test_attention_with_heads_that_only_the_program_counts(function, backend):
    static = dy2st.to_static(function, backend=backend)
    for n in (ONE, MANY, ONE):
        q, pair = torch.randn(2, 4, 5, 8, requires_grad=True), torch.randn(2, 2, 2, 7, 8, requires_grad=True)
        expected, result = function(q, *pair, n), static(q, *pair, n)
        assert torch.equal(expected, result)
        for one, other in zip(*(torch.autograd.grad(of.sin().sum(), (q, pair)) for of in (expected, result)), strict=True):
            assert torch.equal(one, other)
    assert len(static.program_cache) == 1


def test_attention_with_heads_that_do_not_fit_fails_as_in_eager():
    def function(q: Any, k: Any, n: Any) -> Any:
        if n > 0:
            k = k[:, :3]
        return F.scaled_dot_product_attention(q, k, k)

    static = dy2st.to_static(function)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    assert torch.equal(static(q, k, MANY), function(q, k, MANY))
    with pytest.raises(RuntimeError) as eager:
        function(q, k, ONE)
    with pytest.raises(RuntimeError) as failure:
        static(q, k, ONE)
    assert str(eager.value).splitlines()[0] in str(failure.value)


class Output(collections.OrderedDict[str, Any]):
    """A dict whose items are its fields."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {field.name for field in dataclasses.fields(self)} and value is not None:  # type: ignore[arg-type]
            super().__setitem__(name, value)
        super().__setattr__(name, value)


@dataclasses.dataclass
class Pooled(Output):
    pooled: torch.Tensor
    states: Any = None


def test_a_dict_that_is_a_dataclass_is_written_before_its_fields_are_there():
    def function(x: Any) -> Any:
        result = Pooled(pooled=x * 2 if x.sum() > 0 else x * 3)
        return result, result["pooled"] is result.pooled

    static = dy2st.to_static(function)
    for x in (torch.ones(2), -torch.ones(2)):
        (result, same), (expected, same_too) = static(x), function(x)
        assert torch.equal(result.pooled, expected.pooled) and list(result) == list(expected) and same == same_too
    assert len(static.program_cache) == 1


class Settings:
    """An object that gives some of what it holds to nobody."""

    def __init__(self) -> None:
        self.width, self.scale, self.hidden = 8, 2.0, 3.0

    def __getattribute__(self, name: str) -> Any:
        if name == "width" and super().__getattribute__("hidden") > 0:
            raise ValueError("the width differs from layer to layer")
        return super().__getattribute__(name)


def test_a_copy_reads_past_the_attributes_that_a_class_refuses():
    settings = Settings()

    def function(x: Any) -> Any:
        own = copy.copy(settings)
        own.hidden = -1.0
        return x * own.width * own.scale, settings.hidden

    static = dy2st.to_static(function)
    for width in (8, 5):
        settings.width = width
        assert torch.equal(static(torch.ones(2))[0], function(torch.ones(2))[0])
