"""Functions that remember their results do what they do outside of themselves as often as in eager."""

import functools
import re

import pytest
import torch

import dy2st
from tests.oracle import agree, observe, same

log = []


@functools.lru_cache(None)
def noted(message):
    log.append(message)


@functools.cache
def told(k):
    print("made", k)
    return k * 2


@functools.lru_cache(None)
def arange(k):
    return torch.arange(k).float()


class Warns:
    @functools.lru_cache(None)  # noqa: B019
    def once(self, message):
        log.append(message)

    @functools.lru_cache(None)  # noqa: B019
    def more(self, k):
        return k + 1


warns = Warns()


def notes(x):
    noted("a")
    if x.sum() > 0:
        noted("b")
    return x * 2


def notes_by_a_method(x):
    if x.sum() > 0:
        warns.once("c")
    return x * warns.more(2)


def tells(x):
    return told(3) * x


def gives_tensors(x):
    return arange(2) + x if x.sum() > 0 else arange(2)


@pytest.mark.parametrize("function", [notes, notes_by_a_method, tells, gives_tensors])
def test_effects_happen_as_often_as_in_eager(function):
    outcomes = []
    for call in (function, dy2st.to_static(function)):
        log.clear()
        for cached in (noted, told, arange, Warns.once, Warns.more):
            cached.cache_clear()
        seen = [observe(call, torch.ones(2) * k) for k in (-1, 1, 2, -2, 3)]
        outcomes.append(([each.result for each in seen], [each.printed for each in seen], list(log)))
    same(*outcomes)


def test_effects_with_results_that_only_the_program_knows_are_refused():
    @dy2st.to_static
    def f(x):
        return told(5) * x if x.sum() > 0 else x

    with pytest.raises(dy2st.CaptureError, match="remembers its results"):
        f(torch.ones(2))


@functools.cache
def available():
    print("looked")
    return True


def asks_on_some_ways(x):
    if x.sum() > 0:
        if available():
            x = x + 1
    return x * 2


def test_a_result_without_arguments_is_known_on_all_ways_once_it_is_there(capsys):
    available.cache_clear()
    static = dy2st.to_static(asks_on_some_ways)
    with pytest.raises(dy2st.CaptureError, match="remembers its results"):
        static(torch.ones(2))
    available()
    assert capsys.readouterr().out.count("looked") == 1
    for k in (1, -1, 2):
        assert torch.equal(static(torch.ones(2) * k), asks_on_some_ways(torch.ones(2) * k))
    assert capsys.readouterr().out == ""
    assert len(static.program_cache) == 1


@functools.lru_cache(maxsize=4)
def table(n, dtype):
    grid = torch.arange(n, dtype=dtype)
    return torch.cat([grid.sin(), grid.cos()]).reshape(2, n)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total += x.sum()
        y = (x + torch.rand(()))[x > 0]
        self.calls += 1
        return y + table(y.shape[0], dtype=x.dtype), self.calls


def test_what_was_written_before_is_no_effect_of_the_function():
    agree(Counts(), [torch.tensor([3.0, 1.0, 2.0]) - k for k in (0, 1, 2, 3)], programs=2)


@pytest.mark.parametrize("first", [True, False])
def test_what_the_program_writes_too_is_refused(first):
    @dy2st.to_static
    def f(x):
        if first:
            log.append("f")
        noted("a" if x.sum() > 0 else "b")
        if not first:
            log.append("f")
        return x * 2

    for k in (1, -1):
        log.clear()
        with pytest.raises(dy2st.CaptureError, match="both it and the program write to"):
            f(torch.ones(2) * k)
        assert log == []


def test_a_list_that_is_longer_at_each_call_is_written_to_as_often_as_in_eager():
    other = []

    def f(x):
        other.append(len(other))
        noted("a" if x.sum() > 0 else "b")
        return x * 2

    outcomes = []
    for call in (f, dy2st.to_static(f)):
        log.clear()
        other.clear()
        noted.cache_clear()
        for k in (1, 2, -1, 3, -2, 4):
            call(torch.ones(2) * k)
        outcomes.append((list(log), list(other)))
    assert outcomes[0] == outcomes[1]


class Rows:
    def __init__(self, path):
        with open(path) as file:
            self.numbers = [float(line) for line in file]
        self.tensor = torch.tensor(self.numbers)


@functools.lru_cache(maxsize=8)
def rows(path):
    print("read", path)
    return Rows(path)


@functools.cache
def pattern(words):
    log.append(words)
    return re.compile("|".join(sorted(words)))


def reads_a_file(x, path):
    table = rows(path)
    if x.sum() > 0:
        x = x + table.tensor[: len(x)]
    return x * table.numbers[1], table


def makes_a_pattern(x, path):
    found = pattern(frozenset({"txt", "csv"})).search(path)
    return x + len(found[0]) if x.sum() > 0 else x, pattern(frozenset({"txt", "csv"}))


@pytest.mark.parametrize("function", [reads_a_file, makes_a_pattern])
def test_what_python_remembers_is_one_object(function, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1\n2\n3\n")
    outcomes = []
    for call in (function, dy2st.to_static(function)):
        log.clear()
        rows.cache_clear()
        pattern.cache_clear()
        seen = [observe(call, (torch.ones(2) * k, str(path))) for k in (-1, 1, 2, -2)]
        assert len({id(each.result[1]) for each in seen}) == 1
        outcomes.append(([each.result[0] for each in seen], [each.printed for each in seen], list(log)))
    same(*outcomes)


def test_what_is_read_on_some_ways_is_refused(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1\n2\n3\n")

    @dy2st.to_static
    def f(x):
        return x * len(rows(str(path)).numbers) if x.sum() > 0 else x

    with pytest.raises(dy2st.CaptureError, match=r"open\(\)"):
        f(torch.ones(2))
