"""Python's order and identity."""

from __future__ import annotations

import torch

from tests.syntax.case import Chapter

CHAPTER = Chapter("Python's order and identity")

UP, DOWN, ZERO = (torch.tensor(row, dtype=torch.float64) for row in ([1.0, 2.0], [-1.0, -2.0], [0.0, 0.0]))
SIGNS = [UP, DOWN, ZERO]
TRIPS = [(UP, torch.tensor(n)) for n in (3, 0, 1)]


class _Box:
    pass


@CHAPTER.captured("`x -= 1` on a tensor, seen through every name, attribute, item and view of it", SIGNS)
def in_place(x):
    box, items, row = _Box(), [x], x[0]
    box.h = x
    if x.sum() > 0:
        items[0] -= 1
    else:
        row -= 1
    return x, box.h, items, row


@CHAPTER.captured("`x -= 1` in a loop, seen outside", TRIPS)
def in_place_in_loop(x, n):
    y, other = x * 2, x
    for _ in range(n):
        other -= 1
    return x, y


@CHAPTER.captured("`a and b`, `a or b`: lazy, and the operand that decided is the value", SIGNS)
def lazy(x):
    def shown(value):
        print(value)
        return value

    return shown(x[0]) or shown(x[1] + 2), shown(x.max()) and shown(x.min())


@CHAPTER.captured("`a < f() < c`: the middle is evaluated once, the rest only while the chain holds", SIGNS)
def chained(x):
    def shown(value):
        print(value)
        return value

    return 0 < shown(x.sum()) < shown(x.max() * 2)


@CHAPTER.captured("the loop variable after its loop, after zero iterations, and assigned in the body", TRIPS)
def loop_variable(x, n):
    i = 100
    for i in range(n):
        x = x + i
        i = i * 10
    return x, i


@CHAPTER.captured("code after a `break` that was taken", [UP, torch.tensor([100.0, 0.0], dtype=torch.float64), DOWN])
def after_break(x):
    weights, i = [1.0, 2.0, 3.0], 0
    while True:
        if i == 3 or x[0] < i:
            break
        x = x + weights[i]
        print(i)
        i += 1
    return x, i


@CHAPTER.unrolled("an iterator that a second loop goes on with", SIGNS)
def iterator(x):
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    for number in numbers:
        x = x + number
        if number == 2.0:
            break
    for number in numbers:
        if x.sum() > 0:
            x = x * number
    return x


@CHAPTER.captured("lambdas and functions made in a loop", SIGNS)
def closures(x):
    late, early = [], []
    for i in range(3):
        late.append(lambda y: y * i)
        early.append(lambda y, i=i: y * i)
    listed = [lambda y: y + i for i in range(3)]
    if x.sum() > 0:
        i = 7
    return [f(x) for f in late], [f(x) for f in early], [f(x) for f in listed]


@CHAPTER.captured("a variable that changes after a closure was made", SIGNS)
def late_binding(x):
    k = 1
    scaled = lambda: x * k
    if x.sum() > 0:
        k = 2
    x = x + 1
    return scaled()


COUNT = 0


@CHAPTER.captured("`global` in a branch: written only if the branch runs", SIGNS)
def global_in_branch(x):
    global COUNT
    COUNT = 5
    if x.sum() > 0:
        COUNT = 1
    x = x * COUNT
    COUNT = 0
    return x


@CHAPTER.captured("`finally`, whichever way a branch returns", SIGNS)
def always(x):
    try:
        if x.sum() > 0:
            return x * 2
        x = x - 1
        return x
    finally:
        print("done", x)


@CHAPTER.captured("`print` in branches and loops: at each call, in order", TRIPS)
def prints(x, n):
    print("start", x)
    for i in range(n):
        print(i, x[0], sep=": ", end=";\n")
        if i > 0:
            print("again")
        x = x + i
    print(f"end {x.sum():.2f}")
    return x


@CHAPTER.captured("the message of an `assert`: evaluated only when it fails", SIGNS)
def assert_message(x):
    def message():
        print("asked")
        return f"{x} is not positive"

    assert x.sum() > 0, message()
    return x


@CHAPTER.captured("a buffer that only one branch changes, and that gives nothing else", SIGNS)
class buffer_in_branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        if x.sum() > 0:
            self.seen.mul_(2).add_(x)
            self.seen += 1
        return x


@CHAPTER.captured("`a, b = b, a` in a branch", SIGNS)
def swap(x):
    a, b, first = [x], [x + 1], x
    p, q = x * 2, x * 3
    if x.sum() > 0:
        a, b = b, a
        p, q = q, p
    a[0] = a[0] * 10
    return a, b, p, q


@CHAPTER.captured("`a, b = b, a` in a loop", TRIPS)
def swap_in_loop(x, n):
    a, b = x, x * 3
    for _ in range(n):
        a, b = b, a
    return a, b


@CHAPTER.captured("the same tensor, list or dict twice in the result, or among the arguments and the result", SIGNS)
def same_objects(x):
    items = [x * 2]
    same, table = items, {"items": items}
    if x.sum() > 0:
        same = [x]
    return items, same, table, x, (items[0], x)


@CHAPTER.captured("a list that is one of two, changed through either name", SIGNS)
def one_of_two(x):
    items = [x]
    other = items if x.sum() > 0 else [x + 1]
    other.append(x * 2)
    return items, other


@CHAPTER.captured(
    "gradients of what a call did not use stay `None`: the other branch, a loop without iterations", [UP, UP * 9, DOWN]
)
class unused_gradients(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Parameter(torch.tensor([k, 2.0], dtype=torch.float64)) for k in (0.5, 3.0, 2.0))

    def forward(self, x):
        y = x * self.a if x.sum() > 0 else x - self.b
        while y.sum() > 3:
            y = y - self.c * self.c - 1
        return y


@CHAPTER.captured("the order of arguments, operands, subscripts and targets", SIGNS)
def order(x):
    def at(place, value):
        print(place)
        return value

    items, table = [x, x + 1], {"k": x}
    if at(0, x.sum()) > at(1, 0):
        at(2, items)[at(3, 0)] += at(4, x)
        items[at(6, 0)], table[at(7, "k")] = at(5, (x, x * 2))
    else:
        x = torch.add(at(2, x), other=at(3, x), alpha=at(4, 2))
    return x, items, {at(8, "a"): at(9, x), at(10, "b"): at(11, x)}


@CHAPTER.captured("default values, evaluated when the function is defined", SIGNS)
def defaults(x):
    def made(value):
        print("default", value)
        return value

    if x.sum() > 0:

        def scaled(y=made(2)):
            return x * y
    else:

        def scaled(y=made(3)):
            return x * y

    print("defined")
    return scaled(), scaled(5)


@CHAPTER.captured("a tensor changed in place before an exception", SIGNS)
def before_exception(x):
    x += 1
    if x.sum() > 3:
        x *= 2
        raise ValueError(f"the sum is {x.sum()}")
    return x


@CHAPTER.captured("attributes, lists and dicts changed before an exception", [([UP], {}), ([DOWN], {}), ([ZERO], {})])
def written_before_exception(items, table):
    items.append(items[0] * 2)
    table["first"] = items[0]
    if items[0].sum() > 0:
        items.append(items[0] * 3)
        raise ValueError("positive")
    items.clear()
    return items


@CHAPTER.captured(
    "a list that a loop replaces, changed while another name may still hold it", [(UP, torch.tensor(0)), (UP, torch.tensor(2))]
)
def replaced_in_loop(x, n):
    items = [x]
    first = items
    for _ in range(n):
        items = [items[0] + 1]
    items[0] = items[0] * 2
    return items, first


@CHAPTER.captured("`torch.manual_seed`, `fork_rng`, `get_rng_state`; a `torch.Generator` that is made, seeded and chosen", TRIPS)
def random_state(x, n):
    generator = torch.Generator().manual_seed(int(n))
    with torch.random.fork_rng():
        if x.sum() > n:
            generator.manual_seed(7)
            torch.manual_seed(n)
        a = torch.rand(2)
    return a, torch.rand(2), torch.randn(2, generator=generator)
