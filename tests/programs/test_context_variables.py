"""Context variables, read and written by captured code: as in eager, with one program where what they hold stays the same."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dy2st
from dy2st.errors import CaptureError

depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)
collected: contextvars.ContextVar[Any] = contextvars.ContextVar("collected")
ONES, MINUS = torch.ones(2), -torch.ones(2)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    depth_token = depth.set(0)
    yield
    depth.reset(depth_token)


def in_new_context(function: Any, *args: Any) -> Any:
    return contextvars.Context().run(function, *args)


def deeper(x: torch.Tensor) -> torch.Tensor:
    token = depth.set(depth.get() + 1)
    try:
        if x.sum() > 0:
            depth.set(5)
        return x * depth.get()
    finally:
        depth.reset(token)


def test_a_branch_sets_a_variable_that_is_reset_after_it() -> None:
    static = dy2st.to_static(deeper)
    for x in (ONES, MINUS, ONES, MINUS):
        assert torch.equal(static(x), deeper(x))
        assert depth.get() == 0
    assert len(static.program_cache) == 1


def test_another_value_outside_is_another_program() -> None:
    static = dy2st.to_static(deeper)
    for level in (0, 3, 0, 3):
        depth.set(level)
        assert torch.equal(static(MINUS), -(level + 1) * ONES)
        assert depth.get() == level


def test_a_value_set_in_a_call_stays_set_after_it() -> None:
    def count(x: torch.Tensor) -> torch.Tensor:
        depth.set(depth.get() + 1)
        return x * depth.get()

    static = dy2st.to_static(count)
    for times in range(1, 6):
        assert torch.equal(static(ONES), times * ONES)
        assert depth.get() == times
    assert len(static.program_cache) <= 3


def test_a_tensor_set_in_a_branch_is_there_after_the_call() -> None:
    def keep(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            collected.set(x * 2)
        return x

    static = dy2st.to_static(keep)

    def calls() -> None:
        static(MINUS)
        assert collected.get(None) is None
        static(ONES)
        assert torch.equal(collected.get(), 2 * ONES)
        static(MINUS)
        assert torch.equal(collected.get(), 2 * ONES)

    in_new_context(calls)


def test_a_variable_without_a_value_raises_what_eager_raises() -> None:
    def look(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * collected.get()
        except LookupError:
            return x - 1

    static = dy2st.to_static(look)

    def calls() -> None:
        assert torch.equal(static(ONES), 0 * ONES)
        token = collected.set(4)
        assert torch.equal(static(ONES), 4 * ONES)
        collected.reset(token)
        assert torch.equal(static(ONES), 0 * ONES)

    in_new_context(calls)


def test_a_list_in_a_variable_collects_what_helpers_add() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        held = collected.get(None)
        if held is not None:
            held.append(x)
        return x + 1

    def total(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        token = collected.set([])
        for _ in range(3):
            x = helper(x)
        result = torch.stack(collected.get()).sum(0), len(collected.get())
        collected.reset(token)
        return result

    static = dy2st.to_static(total)

    def calls() -> None:
        for x in (ONES, MINUS):
            assert torch.equal(static(x)[0], total(x)[0])
            assert static(x)[1] == 3
            assert collected.get("nothing") == "nothing"

    in_new_context(calls)


def test_each_thread_sees_its_own_value() -> None:
    static = dy2st.to_static(lambda x: x * depth.get(7))
    results: dict[int, torch.Tensor] = {}

    def run(level: int) -> None:
        depth.set(level)
        results[level] = static(ONES)

    threads = [threading.Thread(target=run, args=(level,)) for level in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(result, level * ONES) for level, result in results.items())
    assert torch.equal(static(ONES), 0 * ONES)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda token: (depth.reset(token), depth.reset(token)), RuntimeError),
        (lambda token: collected.reset(token), ValueError),
        (lambda token: depth.reset(3), TypeError),
    ],
)
def test_a_token_used_wrongly_raises_what_eager_raises(use: Any, kind: type[Exception]) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        use(depth.set(1))
        return x

    with pytest.raises(kind):
        wrong(ONES)
    depth.set(0)
    with pytest.raises(kind):
        dy2st.to_static(wrong)(ONES)


def test_a_token_tells_its_variable_and_the_value_before() -> None:
    @dy2st.to_static
    def tell(x: torch.Tensor) -> Any:
        token = depth.set(2)
        missing = collected.set(1).old_value is contextvars.Token.MISSING
        return x * token.old_value, token.var is depth, missing

    assert in_new_context(lambda: (depth.set(9), tell(ONES)))[1][1:] == (True, True)


def test_a_token_from_outside_is_refused_with_a_fix() -> None:
    token = depth.set(3)

    @dy2st.to_static
    def reset(x: torch.Tensor) -> torch.Tensor:
        depth.reset(token)
        return x

    with pytest.raises(CaptureError, match="a token that was there before the call"):
        reset(ONES)
    depth.reset(token)
