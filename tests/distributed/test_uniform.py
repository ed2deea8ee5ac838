"""Processes that part ways: they are found at capture, compared at each call, or taken along; weights are those of eager replicas."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import dy2st
import dy2st_runtime
from dy2st_runtime.analyses.variance import Variance
from tests.distributed.models import WIDTH, Net, batches, train, whole
from tests.distributed.processes import run
from tests.distributed.test_wrappers import _finely, _sharded, _unused

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


def branch(x: torch.Tensor) -> Any:
    y = x.clone()
    if x.sum() > 0:
        dist.all_reduce(y)
        y = y * 2
    return y


def loop(x: torch.Tensor) -> Any:
    y, n = x.clone(), 0
    while y.abs().max() < 10:
        y = y * 2
        z = torch.ones(1)
        dist.all_reduce(z)
        n += 1
    return y, n


def nested(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        y = x.exp()
        dist.all_reduce(y)
        steps = 0
        while y.max() > 1.5:
            y = y / 2
            steps += 1
            if y.min() < 3:
                dist.broadcast(y, 0)
        return y, steps
    y = -x
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y, -1


def inner_loop_of_its_own(x: torch.Tensor) -> Any:
    """What a process that goes along would never get out of: x is 0 there."""
    y = x.clone()
    if x.sum() > 0:
        while y.max() < 100:
            y = y * 3
        assert y.max() >= 100
        z = y.clone()
        dist.all_reduce(z, op=dist.ReduceOp.MAX)
        y = y + z
    return y


def decided_together(x: torch.Tensor) -> Any:
    total = x.sum()
    dist.all_reduce(total)
    y = x.clone()
    if total > 0:
        dist.all_reduce(y)
    steps = torch.zeros(())
    while steps < total:
        dist.all_reduce(y, op=dist.ReduceOp.AVG if False else dist.ReduceOp.MAX)
        steps += 1
    return y


def _outcome(function: Callable[[torch.Tensor], Any], x: torch.Tensor, **options: Any) -> Any:
    static = dy2st.to_static(function, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dy2st.DivergenceWarning)
        try:
            result = static(x.clone())
        except dy2st.DivergenceError as error:
            return str(error)
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, dy2st.DivergenceWarning)]
    return warned[0] if warned else result


def _at_once(rank: int, backend: str, uniform: str) -> list[Any]:
    found = []
    for function in (branch, loop, nested, inner_loop_of_its_own):
        for signs in ((1, 1), (1, -1), (1, 0), (-1, -1)):
            if 0 in signs and (function is loop or uniform == "check"):
                continue  # it never ends in eager, either
            x = torch.ones(2) * (rank + 1) * signs[rank]
            found.append((function.__name__, signs, _outcome(function, x, uniform=uniform, backend=backend)))
    return found


_EXPECTED = {
    ("branch", (1, 1)): ([6.0, 6.0], [6.0, 6.0]),
    ("branch", (1, -1)): ([-2.0, -2.0], [-2.0, -2.0]),
    ("branch", (1, 0)): ([2.0, 2.0], [0.0, 0.0]),
    ("branch", (-1, -1)): ([-1.0, -1.0], [-2.0, -2.0]),
    ("loop", (1, 1)): (([16.0, 16.0], 4), ([16.0, 16.0], 3)),
    ("loop", (1, -1)): (([16.0, 16.0], 4), ([-16.0, -16.0], 3)),
    ("loop", (-1, -1)): (([-16.0, -16.0], 4), ([-16.0, -16.0], 3)),
    ("inner_loop_of_its_own", (1, 1)): ([486.0, 486.0], [405.0, 405.0]),
    ("inner_loop_of_its_own", (1, -1)): ([486.0, 486.0], [-2.0, -2.0]),
    ("inner_loop_of_its_own", (1, 0)): ([486.0, 486.0], [0.0, 0.0]),
    ("inner_loop_of_its_own", (-1, -1)): ([-1.0, -1.0], [-2.0, -2.0]),
}


@pytest.mark.parametrize("backend", ["native", "python"])
def test_processes_go_together(backend: str, tmp_path: Path) -> None:
    for rank, results in enumerate(run(_at_once, tmp_path, backend, "auto")):
        for name, signs, result in results:
            assert not isinstance(result, str), result
            values = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.tolist, result)
            if (name, signs) in _EXPECTED:
                assert values == _EXPECTED[name, signs][rank], (name, signs, rank)
            elif signs == (-1, -1):
                assert values == ([2.0, 2.0], -1)
            elif signs[rank] == 1:
                assert max(values[0]) <= 1.5


@pytest.mark.parametrize("backend", ["native", "python"])
def test_processes_find_out_together(backend: str, tmp_path: Path) -> None:
    results = run(_at_once, tmp_path, backend, "check")
    for one, other in zip(*results, strict=True):
        name, signs, told = one
        parts = name != "inner_loop_of_its_own" and (signs == (1, -1) or name == "loop")
        assert isinstance(told, str) == (parts or signs == (1, -1)), one
        if isinstance(told, str):
            assert told == other[2] and "test_uniform.py:" in told and "ranks [0], and false in ranks [1]" in told


def first_program(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        dist.all_reduce(x)
    return x


def second_program(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        dist.all_reduce(x)
    return x * 2


def _two_programs(rank: int) -> list[Any]:
    function = (first_program, second_program)[rank]
    return [_outcome(function, torch.ones(2), uniform=uniform) for uniform in ("check", "auto")]


def test_processes_with_different_programs_find_out(tmp_path: Path) -> None:
    one, other = run(_two_programs, tmp_path)
    assert one == other
    for told in one:
        assert "different programs: rank 0 decides a branch at test_uniform.py:" in told and told.count("test_uniform.py:") == 2


def _told(rank: int) -> list[Any]:
    x = torch.ones(2)  # alike in both processes: nothing hangs
    return [_outcome(f, x, uniform=u) for u in (None, "error") for f in (branch, loop, decided_together)]


def test_a_capture_says_where_processes_may_part(tmp_path: Path) -> None:
    for results in run(_told, tmp_path):
        for position in (0, 1, 3, 4):
            assert results[position].count("test_uniform.py:") >= 2 and "all_reduce" in results[position]
        assert isinstance(results[2], torch.Tensor) and isinstance(results[5], torch.Tensor)


# -- sharded parameters --------------------------------------------------------------------------------------------------------

_SHARDING: dict[str, Callable[[Any], Any]] = {"at_once": fully_shard, "by_layer": _sharded, "finely": _finely}


def _sharded_as_replicas(rank: int, way: str, numbers: list[int], backend: str) -> list[Any]:
    found: list[Any] = []
    for number in numbers:
        eager = _unused(Net(number), broadcast_buffers=False)
        static = _SHARDING[way](dy2st.to_static(Net(number), uniform="auto", backend=backend))
        data = batches(rank, 20)
        losses = [train(model, data) for model in (eager, static)]
        different = max((a - whole(b)).abs().max().item() for a, b in zip(eager.parameters(), static.parameters(), strict=True))
        buffers = all(torch.equal(a, b) for a, b in zip(eager.buffers(), static.buffers(), strict=True))
        if different > 1e-6 or not buffers or len(static.forward.program_cache) != 1:
            found.append((way, number, different, losses))
    return found


@pytest.mark.parametrize("way", _SHARDING)
def test_sharded_models_whose_processes_part_train_as_replicas_do(way: str, tmp_path: Path) -> None:
    assert run(_sharded_as_replicas, tmp_path, way, [6], "native") == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize("way", _SHARDING)
@pytest.mark.parametrize("backend", ["native", "python"])
def test_many_sharded_models_do(way: str, backend: str, tmp_path: Path) -> None:
    assert run(_sharded_as_replicas, tmp_path, way, [*range(100, 150)], backend, timeout=900) == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize("way", _SHARDING)
def test_four_processes_do(way: str, tmp_path: Path) -> None:
    assert run(_sharded_as_replicas, tmp_path, way, [*range(200, 210)], "native", world=4, timeout=900) == [[]] * 4


class Experts(nn.Module):
    """Each row goes to one of four; in one process or other an expert has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.gate(x * 4).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]
            if rows.numel() > 0:
                out.index_add_(0, rows, expert(x[rows]) * shares[rows, None])
        return out


def _experts(rank: int) -> list[Any]:
    eager = _unused(Experts())
    static = dy2st.to_static(Experts(), uniform="auto")
    for expert in static.experts:
        fully_shard(expert)
    fully_shard(static)
    data = [batch[: 2 + rank] for batch in batches(rank, 20)]
    losses = [train(model, data) for model in (eager, static)]
    different = max((a - whole(b)).abs().max().item() for a, b in zip(eager.parameters(), static.parameters(), strict=True))
    return [different < 1e-6, losses[0] == losses[1]]


def test_experts_without_work_in_some_process_train(tmp_path: Path) -> None:
    assert run(_experts, tmp_path) == [[True, True]] * 2


def _warned_of(rank: int) -> list[int]:
    counts = []
    for way in _SHARDING.values():
        net = way(dy2st.to_static(Net(6, by_data=True)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dy2st.DivergenceWarning)
            net(batches(0, 1)[0])
        counts.append(sum(issubclass(one.category, dy2st.DivergenceWarning) for one in caught))
    return counts


def test_a_capture_warns_of_sharded_parameters_in_branches(tmp_path: Path) -> None:
    for counts in run(_warned_of, tmp_path):
        assert all(counts), counts


def _saved(rank: int, folder: str) -> list[bool]:
    found = []
    for function in (branch, loop, nested):
        for uniform in ("auto", "check"):
            path = Path(folder, f"{function.__name__}_{uniform}_{rank}.dy2st")
            static = dy2st.to_static(function, uniform=uniform)
            dy2st.save(static, path, input_spec=[dy2st.InputSpec([2])])
            loaded = dy2st_runtime.load(path)
            signs = (1, -1) if uniform == "auto" else (1, 1)
            x = torch.ones(2) * signs[rank]
            expected, result = (torch.utils._pytree.tree_leaves(one(x.clone())) for one in (static, loaded))
            same = [torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(expected, result, strict=True)]
            found.append(all(same))
    return found


def test_programs_that_go_together_are_saved(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    assert run(_saved, tmp_path / "run", str(tmp_path / "saved")) == [[True] * 6] * 2


# -- what cannot be undone -----------------------------------------------------------------------------------------------------


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _raises(x: torch.Tensor) -> Any:
    y = x.clone()
    if x.sum() > 0:
        dist.all_reduce(y)
        raise ValueError("too much")
    return y


def _prints(x: torch.Tensor) -> Any:
    y = x.clone()
    if x.sum() > 0:
        dist.all_reduce(y)
        print(y)
    return y


def _appends(x: torch.Tensor) -> Any:
    found = [x]
    while found[-1].sum() < 10:
        y = found[-1] * 2
        dist.all_reduce(y)
        found.append(y)
    return torch.stack(found)


def _two_refuse(rank: int) -> list[str]:
    found = []
    for function in (_raises, _prints, _appends):
        told = _outcome(function, torch.ones(2), uniform="auto")
        found.append(told if isinstance(told, str) else "")
    return found


def test_what_cannot_be_undone_is_refused(tmp_path: Path) -> None:
    for raises, prints, appends in run(_two_refuse, tmp_path):
        assert "it raises, at" in raises and "it prints, at" in prints and "changes a list from outside of it, at" in appends


@pytest.mark.parametrize("uniform", ["check", "auto", "error", None])
def test_one_process_does_the_same(uniform: str | None, group: None) -> None:
    for function in (branch, loop, nested):
        for x in (torch.ones(2), -torch.ones(2)):
            expected, found = function(x.clone()), dy2st.to_static(function, uniform=uniform)(x.clone())
            for a, b in zip(torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(found), strict=True):
                assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))


def test_the_option_is_checked() -> None:
    with pytest.raises(dy2st.SignatureError, match="uniform"):
        dy2st.to_static(branch, uniform="always")


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        self.steps += 1
        self.seen += x.sum()
        y = x.clone()
        if self.weight.sum() > self.steps:  # the same in all processes
            dist.all_reduce(y)
        if self.seen > 0:  # not the same
            y = y * 2
        return y


def _of_state(rank: int) -> list[list[bool]]:
    module = dy2st.to_static(Shared())
    program = module.forward.program(torch.ones(2))
    found = []
    for strict in (False, True):
        conditions = Variance(program, strict).conditions
        found.append([value is None for value in conditions.values()])
    return found


def test_state_is_the_same_as_long_as_nothing_else_is_written_into_it(tmp_path: Path) -> None:
    assert run(_of_state, tmp_path) == [[[True, False], [False, False]]] * 2
