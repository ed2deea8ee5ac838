"""Generators of random numbers that captured code makes, seeds and saves the state of: eager's numbers, in one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
import dy2st_runtime
from dy2st.errors import CaptureError, SaveError
from tests.oracle import agree, same

ONES = torch.ones(3)
CALLS = [(ONES, torch.tensor(3)), (-ONES, torch.tensor(2)), (ONES, torch.tensor(0)), (-ONES, torch.tensor(5))]


def seeded_and_drawn(x: Any, seed: Any) -> Any:
    generator = torch.Generator().manual_seed(int(seed))
    if x.sum() > 0:
        y = torch.randn(3, generator=generator) + x
    else:
        y = torch.rand(3, generator=generator) * 2
        generator.manual_seed(5)
    for _ in range(int(seed) % 4):
        y = y + torch.randn(3, generator=generator)
    z = torch.nn.init.uniform_(torch.empty(3).normal_(generator=generator), generator=generator)
    more = torch.randperm(5, generator=generator), torch.multinomial(torch.ones(4), 2, generator=generator)
    return y, z, more, generator.initial_seed(), generator.get_state(), torch.rand(2)


def default_state(x: Any, seed: Any) -> Any:
    torch.manual_seed(seed)
    with torch.random.fork_rng(enabled=bool(seed > 2)):
        if x.sum() > 0:
            torch.manual_seed(7)
        a = torch.rand(2)
    state = torch.get_rng_state()
    b = torch.rand(2)
    torch.set_rng_state(state)
    return a, b, torch.rand(2), torch.initial_seed()


@pytest.mark.parametrize("function", [seeded_and_drawn, default_state])
def test_it_draws_what_eager_draws_and_is_saved(function: Any, tmp_path: Path) -> None:
    agree(function, CALLS)
    path = tmp_path / "model.dy2st"
    dy2st.save(function, path, input_spec=CALLS[0])
    for backend in ("python", "native"):
        loaded = dy2st_runtime.load(path, backend=backend)
        for call in CALLS:
            torch.manual_seed(1)
            expected = function(*call)
            torch.manual_seed(1)
            same(expected, loaded(*call))


def test_a_loop_carries_a_generator() -> None:
    def walk(x: Any, n: Any) -> Any:
        generator, i = torch.Generator(), 0
        while i < n:
            x = x + torch.randn(3, generator=generator)
            if x.sum() > 2:
                generator.manual_seed(i)
            i = i + 1
        return x, torch.rand(1, generator=generator)

    agree(walk, CALLS)


def test_a_branch_chooses_a_generator_and_two_names_are_one() -> None:
    def choose(x: Any, n: Any) -> Any:
        a, b = torch.Generator(), torch.Generator().manual_seed(-1)
        c = a if x.sum() > 0 else b
        return torch.rand(2, generator=c), torch.rand(2, generator=a), torch.rand(2, generator=b), isinstance(c, torch.Generator)

    agree(choose, CALLS)


def test_a_state_goes_from_one_generator_to_another() -> None:
    def copied(x: Any, n: Any) -> Any:
        a, b = torch.Generator().manual_seed(int(n)), torch.Generator()
        first, state = torch.rand(2, generator=a), a.get_state()
        b.set_state(state)
        state.zero_()
        return first, torch.rand(2, generator=a), torch.rand(2, generator=b), a.get_state()

    agree(copied, CALLS)


def test_operations_draw_that_have_no_abstract_value_for_it() -> None:
    def draws(x: Any, n: Any) -> Any:
        generator = torch.Generator().manual_seed(int(n))
        a = torch.empty(4).bernoulli_(0.3, generator=generator), torch.empty(3).exponential_(generator=generator)
        return *a, torch.normal(x, 1.0, generator=generator), torch.bernoulli(x.abs() / 2, generator=generator)

    agree(draws, CALLS)


def test_a_module_seeds_its_own_generator_where_a_tensor_decides() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(3)

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                self.generator.manual_seed(2)
            state = self.generator.get_state()
            first = torch.rand(3, generator=self.generator)
            self.generator.set_state(state)
            return x * first, torch.rand(3, generator=self.generator), self.generator.initial_seed()

    eager, static = Net(), dy2st.to_static(Net())
    for x in (ONES, -ONES, ONES, -ONES):
        same(eager(x), static(x))
        same(eager.generator.get_state(), static.generator.get_state())
    assert len(static.forward.program_cache) == 1
    with pytest.raises(SaveError, match="Generator"):
        dy2st.save(static, "nowhere.dy2st", input_spec=[ONES])


def test_a_seed_that_is_none_is_eagers_error() -> None:
    def wrong(x: Any, n: Any) -> Any:
        return torch.rand(1, generator=torch.Generator().manual_seed(x))

    agree(wrong, CALLS[:1], programs=None)


def test_seeds_that_nobody_chooses_are_other_ones_at_each_call() -> None:
    @dy2st.to_static
    def anew(x: Any) -> Any:
        generator = torch.Generator()
        seed = generator.seed()
        return torch.seed(), seed, torch.rand(2, generator=generator), torch.rand(2, generator=torch.Generator().manual_seed(seed))

    with torch.random.fork_rng():
        first, second = anew(ONES), anew(ONES)
    assert first[0] != second[0] and first[1] != second[1]
    for _, _, drawn, again in (first, second):
        assert torch.equal(drawn, again)


def test_what_no_program_can_do_with_a_generator_is_refused() -> None:
    class Holder:
        generator: Any = None

    holder = Holder()

    def returned(x: Any) -> Any:
        return torch.Generator()

    def stored(x: Any) -> Any:
        holder.generator = torch.Generator()
        return x

    def sampled(x: Any) -> Any:
        return list(torch.utils.data.RandomSampler([1, 2, 3], generator=torch.Generator()))

    def caught(x: Any) -> Any:
        try:
            torch.set_rng_state((x > 0).to(torch.uint8))
        except RuntimeError:
            return x
        return x + 1

    before = torch.get_rng_state()
    for function in (returned, stored, sampled, caught):
        with pytest.raises(CaptureError, match="Generator|random numbers") as error:
            dy2st.to_static(function)(ONES)
        assert "test_random_generators.py" in str(error.value)
    assert torch.equal(before, torch.get_rng_state())
    assert holder.generator is None


_BOUNDED = [
    lambda n, g: torch.randint(0, n, (2,), generator=g),
    lambda n, g: torch.randint(n, (n, 2), generator=g),
    lambda n, g: torch.rand(n, 2, generator=g),
    lambda n, g: torch.randperm(n, generator=g),
]


@pytest.mark.parametrize("draw", _BOUNDED)
def test_numbers_below_one_of_the_program_are_drawn_with_a_generator(draw: Any) -> None:
    def f(x: Any) -> Any:
        kept = x[x > 0]
        generator = torch.Generator().manual_seed(3)
        return draw(len(kept), generator), kept

    agree(f, [(torch.tensor([1.0, -1.0, 2.0, 3.0]),), (torch.tensor([-1.0, 1.0, -2.0, -3.0]),)])


@pytest.mark.parametrize("draw", _BOUNDED)
def test_no_generator_is_given_or_one_on_some_ways(draw: Any) -> None:
    def f(x: Any) -> Any:
        kept = x[x > 0]
        generator = None
        if x[0] > 5:
            generator = torch.Generator().manual_seed(3)
        return draw(len(kept), generator), draw(len(kept), None), kept

    calls = [(torch.tensor([1.0, -1.0, 2.0, 3.0]),), (torch.tensor([-1.0, 1.0, -2.0, -3.0]),), (torch.tensor([7.0, 1.0, 1.0]),)]
    agree(f, calls[:2])
    agree(f, calls[2:])
