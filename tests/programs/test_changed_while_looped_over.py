"""Dicts, sets and deques that an iteration changes: Python tells where the loop goes on, and not where it is left."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree

VALUES = (torch.tensor(-1.0), torch.tensor(0.5), torch.tensor(1.5), torch.tensor(3.0))


def puts_in_and_leaves(t, x):
    for key in t:
        if x > t[key]:
            t["new"] = 9
            break
    return x


def takes_out_and_leaves(t, x):
    for key in t:
        if x > t[key]:
            del t[key]
            return key
    else:
        t["none"] = 5
    return "none"


def puts_in_and_goes_on(t, x):
    seen = 0
    for _ in t:
        seen += 1
        if x > 1:
            t["new"] = seen
    return seen


def takes_out_of_one_with_open_keys(t, x):
    if x > 0:
        t.pop("a", None)
    for key in t:
        t.pop(key)
    return x


def writes_what_may_be_there(t, x):
    if x > 0:
        t["new"] = 1
    for _ in t:
        t["new"] = 3
    return x


def changes_values(t, x):
    for key in t:
        if x > t[key]:
            t[key] += 1
    return x


def caught(t, x):
    try:
        for key in t:
            if x > 1:
                t.pop(key)
    except RuntimeError as error:
        return str(error)
    return "none"


def adds(s, x):
    for member in s:
        if x > 1:
            s.add(member + 5)
    return x


def discards_one(s, x):
    for member in s:
        if x > member:
            s.discard(member)
            break
    return x


def appends(d, x):
    for item in d:
        if x > 1:
            d.append(item)
    return x


def removes_one(d, x):
    for item in d:
        if x > item:
            d.remove(item)
            break
    return x


def pushes_one(d, x):
    for item in d:
        if x > item:
            d.append(item + 2)
            return item
    return -1


OF_DICTS = [
    puts_in_and_leaves, takes_out_and_leaves, puts_in_and_goes_on, takes_out_of_one_with_open_keys, writes_what_may_be_there,
    changes_values, caught,
]  # fmt: skip
OF_DEQUES = [appends, removes_one, pushes_one]


def check(function: Any, make: Any) -> None:
    def world():
        held = make()
        return World(lambda x: function(held, x), [held], [lambda f, x=x: f(x) for x in VALUES])

    agree(world)


@pytest.mark.parametrize("make", [lambda: {"a": 0, "b": 1}, lambda: {"a": 2}, lambda: collections.Counter(a=1, b=1)])
@pytest.mark.parametrize("function", OF_DICTS)
def test_dicts(function, make):
    check(function, make)


@pytest.mark.parametrize("function", [adds, discards_one])
def test_sets(function):
    check(function, lambda: {0, 1, 2})


@pytest.mark.parametrize("function", OF_DEQUES)
def test_deques(function):
    check(function, lambda: collections.deque([0, 1, 2]))


@pytest.mark.parametrize("function", [removes_one, pushes_one])
def test_full_deques(function):
    check(function, lambda: collections.deque([0, 1, 2], 3))


def takes_out_an_item_and_leaves(t, x):
    for key, value in t.items():
        if x > value:
            del t[key]
            break
    return x


def takes_out_an_item_and_goes_on(t, x):
    seen = 0
    for key, value in t.items():
        seen += 1
        if x > value and x < 2:
            t.pop(key)
    return seen


def gives_an_item_back(t, x):
    for key, value in t.items():
        if x > value:
            return key, t.pop(key)
    return None


def puts_in_a_value_and_goes_on(t, x):
    for value in t.values():
        if x > value:
            t["new"] = 5
    return x


def changes_values_that_come(t, x):
    if x > 1:
        t["new"] = 1
    for key, value in t.items():
        if x > value:
            t["b"] = value + 1
    return list(t.items())


def renames(t, x):
    for key in t:
        if x > t[key]:
            t[key + "!"] = t.pop(key)
            break
    return list(t)


def puts_at_the_end(t, x):
    for key, value in t.items():
        if x > value:
            del t[key]
            t[key] = value + 1
            break
    return list(t)


OF_VIEWS = [
    takes_out_an_item_and_leaves, takes_out_an_item_and_goes_on, gives_an_item_back, puts_in_a_value_and_goes_on,
    changes_values_that_come, renames, puts_at_the_end,
]  # fmt: skip


@pytest.mark.parametrize("make", [lambda: {"a": 0, "b": 1}, lambda: collections.defaultdict(int, c=2)])
@pytest.mark.parametrize("function", OF_VIEWS)
def test_views_of_dicts(function, make):
    check(function, make)


def moves_and_leaves(t, x):
    for key, value in t.items():
        if x > value:
            t.move_to_end(key)
            break
    return list(t)


def moves_and_goes_on(t, x):
    for key in t:
        if x > t[key]:
            t.move_to_end(key)
    return list(t)


def moves_and_catches(t, x):
    seen = []
    try:
        for key, value in t.items():
            seen.append(key)
            if x > value:
                t.move_to_end(key, last=False)
    except RuntimeError as error:
        return str(error), seen
    return seen


def changes_at_the_last_step(t, x):
    seen = 0
    for value in t.values():
        seen += 1
        if x > 1 and seen == len(t):
            t["new"] = value
    return seen


@pytest.mark.parametrize(
    "function", [changes_at_the_last_step, moves_and_leaves, moves_and_goes_on, moves_and_catches, *OF_VIEWS[:3]]
)
def test_ordered_dicts(function):
    check(function, lambda: collections.OrderedDict(a=0, b=1, c=2))


def takes_out_by_number(items, x):
    for number, item in enumerate(items):
        if x > item:
            del items[number]
            break
    else:
        items.append(4)
    return len(items)


def takes_out_by_number_and_goes_on(items, x):
    numbers = []
    for number, item in enumerate(items, 2):
        numbers.append(number)
        if x > item:
            items.pop(0)
    return numbers


def puts_in_order(items, x):
    for number, item in enumerate(items):
        if x < item:
            items.insert(number, x)
            return number
    items.append(x)
    return -1


def takes_from_it_afterwards(items, x):
    counted = enumerate(items)
    for number, _ in counted:
        if number == 0:
            break
    return next(counted, None), x


@pytest.mark.parametrize(
    "function", [takes_out_by_number, takes_out_by_number_and_goes_on, puts_in_order, takes_from_it_afterwards]
)
def test_enumerated_lists(function):
    check(function, lambda: [torch.tensor(0.0), torch.tensor(1.0), torch.tensor(2.0)])


def exchanges(t, x):
    for key in t:
        if x > t[key]:
            t["new"] = t.pop(key)
    return x


def puts_at_the_end_and_goes_on(t, x):
    for key in t:
        if x > t[key]:
            t[key] = t.pop(key)
    return x


def exchanges_always(t, x):
    for key in t:
        t["new"] = t.pop(key)
    return x


@pytest.mark.parametrize("function", [exchanges, puts_at_the_end_and_goes_on])
def test_keys_that_come_in_the_place_of_others_while_the_loop_goes_on(function):
    static = dy2st.to_static(function)
    assert static({"a": 0, "b": 1}, VALUES[0]) == VALUES[0]
    with pytest.raises(dy2st.TableError, match="(?s)a loop over a dict went on.*test_changed_while_looped_over.py"):
        static({"a": 0, "b": 1}, VALUES[3])


def test_keys_that_always_come_in_the_place_of_others():
    with pytest.raises(dy2st.CaptureError, match="a loop over a dict takes keys out and puts some in"):
        dy2st.to_static(exchanges_always)({"a": 0, "b": 1}, VALUES[0])


def takes_the_first(t, x):
    if x > 1:
        t.pop("a", None)
    key, value = next(iter(t.items()))
    return key, value, next(iter(t)), next(iter(t.values())), next(iter(t.keys()), None)


def takes_one_after_the_other(t, x):
    if x > 1:
        t["a"] = t.pop("a", 5)
    items = iter(t.items())
    return next(items), next(items, None), list(items)


def finds_none(t, x):
    t.clear()
    if x > 1:
        t["b"] = 3
    try:
        return next(iter(t.values()))
    except StopIteration:
        return next(iter(t), "none")


@pytest.mark.parametrize("function", [takes_the_first, takes_one_after_the_other, finds_none])
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_iterators_over_dicts_of_which_a_tensor_decides_the_keys(function, kind):
    check(function, lambda: kind(a=0, b=1, c=2))


def test_iterators_that_are_older_than_a_change_are_refused():
    def goes_on(t, x):
        items = iter(t.items())
        first = next(items)
        if x > 1:
            t["new"] = 1
        return first, next(items)

    with pytest.raises(dy2st.CaptureError, match="since the iterator was made"):
        dy2st.to_static(goes_on)({"a": 0, "b": 1}, VALUES[0])


def counts_what_may_be_there(t, x):
    if x > 1:
        t["new"] = x + 1
    count, total = 0, x
    for key, value in t.items():
        count += len(key)
        total = total + value
    for value in t.values():
        count, total = count + 1, total + value
    return count, total


def counts_in_a_function_of_its_own(t, x):
    count = 0

    def note(value):
        nonlocal count
        count += 1
        return value

    if x > 1:
        t["new"] = x + 1
    for value in t.values():
        x = x + note(value)
        if x > 4:
            break
    return count, x


@pytest.mark.parametrize("function", [counts_what_may_be_there, counts_in_a_function_of_its_own])
def test_variables_of_loops_over_items_that_may_be_there(function):
    check(function, lambda: {"a": 0, "b": 1})


def takes_out_what_may_be_there_and_goes_on(t, x):
    seen = 0
    for _ in range(int(x.abs() * 2)):
        for key in t:
            seen += 1
            if x < 1:
                t.pop(key, None)
        if x > 0:
            t["a"] = x
    return seen


def takes_out_members_and_goes_on(t, x):
    members = set()
    for _ in range(int(x.abs() * 2)):
        for key in members:
            if x < 1:
                members.discard(key)
        if x < 2:
            members.add("c")
    return len(members)


def replaces_what_may_be_there(t, x):
    for _ in range(int(x.abs() * 2)):
        for key in t:
            if x < 1:
                t[key] = x * 2
        if x > 1:
            t.pop("a", None)
    return len(t)


@pytest.mark.parametrize(
    "function", [takes_out_what_may_be_there_and_goes_on, takes_out_members_and_goes_on, replaces_what_may_be_there]
)
def test_what_may_be_there_before_an_iteration_and_may_be_there_after_it(function):
    check(function, lambda: {"a": torch.tensor(1.0)})


def takes_out_of_counted_keys(t, x):
    if x < 0:
        t.pop("b", None)
    seen = 0
    for k, _ in enumerate(t):
        seen += k
        if x < 1:
            t["c"] = x
    return seen


def takes_out_of_counted_values(t, x):
    made = {}
    if x > 0:
        made["b"] = x
    seen = []
    for k, value in enumerate(made.values()):
        seen.append(value * k)
        if x > 2:
            made.pop("b", None)
    return seen


def sums_counted_values(t, x):
    if x < 0:
        t.pop("b", None)
    return (
        sum(k * v for k, v in enumerate(t.values())),
        max(k + v for k, v in enumerate(t.values())),
        any(v > 1 for _, v in enumerate(t.values())),
    )


@pytest.mark.parametrize("function", [takes_out_of_counted_keys, takes_out_of_counted_values, sums_counted_values])
def test_counted_keys_and_values_of_which_a_tensor_decides_which_there_are(function):
    check(function, lambda: {"a": torch.tensor(1.0), "b": torch.tensor(2.0)})


def puts_in_through_items_of_one_of_two(t, x):
    made = {"d": x, "c": x}
    for _ in range(int(x.abs() * 2)):
        if x > 0:
            made.pop("c", None)
        for _key, _value in made.items():
            made["c"] = x + 1
        made = dict(made)
    return made


def goes_through_items_of_one_of_two(t, x):
    one, two = {"d": x, "c": x}, {"e": x}
    chosen = one if x > 0 else two
    return sum(v for v in chosen.values()), [k for k, _ in chosen.items()], sum(k * v for k, v in enumerate(chosen.values()))


@pytest.mark.parametrize("function", [puts_in_through_items_of_one_of_two, goes_through_items_of_one_of_two])
def test_items_of_one_of_two_dicts(function):
    check(function, dict)
