"""State that is made when it is first asked for, in loops of the program: it is of one kind once it is there."""

import collections

import torch

import dy2st
from tests import worlds


def averages(x, parameters, state):
    n = 0
    while n < int(x.sum()):
        for i, p in enumerate(parameters):
            known = state.setdefault(i, {})
            if not known:
                known["mean"] = torch.zeros_like(p)
                known["steps"] = 0
            known["steps"] += 1
            known["mean"] = known["mean"] * 0.9 + p
        n += 1
    return n


def _parameters(count):
    return [torch.arange(1.0, 3.0) + i for i in range(count)]


def test_state_that_is_made_in_the_first_iteration_is_that_of_the_next():
    def make():
        states = [{}, {}, {}, {}]
        calls = [
            lambda run, state=state, trips=trips: run(torch.full((1,), trips), _parameters(2), state)
            for state, trips in zip(states, (0.0, 1.0, 2.0, 5.0))
        ]
        return worlds.World(averages, states, calls)

    worlds.agree(make, programs=1)


def test_a_program_is_as_long_as_the_list_that_its_loop_goes_through():
    lengths = []
    for count in (2, 4):
        program = dy2st.to_static(averages).program(torch.ones(1), _parameters(count), {})
        lengths.append(sum(1 for _ in program.nodes()))
    assert lengths[1] < 2.5 * lengths[0]


def test_what_a_dict_made_in_an_iteration_has_in_it_is_told_apart_where_it_has_another_name():
    def f(x, n):
        state, last, k = {}, None, 0
        while k < n:
            made = {}
            known = state.setdefault("a", made)
            if not known:
                known["mean"] = x
            last = len(made)
            known["mean"] = known["mean"] + k
            k += 1
        return state, last

    def make():
        calls = [lambda run, n=n: run(torch.ones(2), torch.tensor(n)) for n in (0, 1, 2, 4)]
        return worlds.World(f, [], calls)

    worlds.agree(make, programs=1)


def test_a_test_that_is_decided_by_another_is_not_asked_again():
    def f(x, y):
        made = None
        if x.sum() > 0:
            made = {}
        is_there = made is not None
        if y.sum() > 0 and is_there:
            made["a"] = x
        if is_there:
            made["b"] = y
        return made, (made["b"] if is_there else None)

    def make():
        signs = [(torch.ones(2) * a, torch.ones(2) * b) for a in (1, -1) for b in (1, -1)]
        return worlds.World(f, [], [lambda run, given=given: run(*given) for given in signs])

    worlds.agree(make, programs=1)


def several(x, state, n):
    for i in range(n):
        if x.sum() > i:
            own = state["p"]
            if len(own) == 0:
                own["step"] = 0
                own["mean"] = x * 0
                own["square"] = x * 0
                own["previous"] = x * 0
            own["step"] += 1
            own["mean"] = own["mean"] + x
            own["square"].add_(x * x)
            own["previous"] = own["mean"] + own["square"]
        x = x - 1
    return x


def test_many_items_that_are_made_at_once_have_one_order():
    """An empty dict has none of them, and where one was found before, it is there: they are not taken out of the order."""

    def make():
        state = collections.defaultdict(dict)
        calls = [
            lambda run, sign=sign, trips=trips: run(torch.full((2,), sign), state, torch.tensor(trips))
            for sign, trips in ((1.0, 2), (1.0, 0), (-1.0, 3), (3.0, 4))
        ]
        return worlds.World(several, [state], calls)

    worlds.agree(make)


def test_what_a_branch_has_checked_holds_where_its_test_does():
    def f(x, states, n):
        made = {}
        for i in range(n):
            own = states[0] if x.sum() > i else made
            if len(own) == 0:
                own["a"] = x
                own["b"] = x * 2
                own["c"] = x * 3
                own["d"] = x * 4
            own["a"] = own["a"] + own["d"]
            own["d"] = own["b"] + own["c"]
        return made, list(states[0])

    def make():
        states = [{}]
        calls = [
            lambda run, sign=sign, trips=trips: run(torch.full((2,), sign), states, torch.tensor(trips))
            for sign, trips in ((-1.0, 2), (1.0, 0), (1.0, 4), (-1.0, 3))
        ]
        return worlds.World(f, states, calls)

    worlds.agree(make)
