"""Items of dicts and attributes of objects that only one branch makes or removes."""

from tests.oracle import agree
from tests.programs.values import signs


class Box:
    pass


def made(x):
    d = {"a": x}
    if x.sum() > 0:
        d["c"] = x + 1
    d["z"] = x * 2
    return d


def test_a_returned_dict_has_the_items_of_the_branch():
    agree(made, signs())


def test_an_optional_item_is_read_or_raises_a_key_error():
    agree(lambda x: made(x)["c"], signs())


def test_a_membership_test_guards_an_optional_item():
    def f(x):
        d = made(x)
        if "c" in d:
            return d["c"], "c" in d, "b" in d
        return x, len(d), "a" not in d

    agree(f, signs())


def test_get_pop_and_setdefault_handle_an_optional_item():
    def f(x):
        d = made(x)
        return d.get("c", x * 5), d.get("c"), d.pop("c", 1.0), d, d.setdefault("c", x)

    agree(f, signs())


def test_copies_of_a_dict_keep_its_optional_items():
    def f(x, ordered):
        d = made(x)
        e = {**d, "q": x}
        g = dict(d)
        g["c"] = x
        return e, g if ordered else {key: g[key] for key in ("a", "c", "z")}, d.copy(), d == e

    for ordered in (True, False):
        agree(f, [(x, ordered) for x in signs()])
    agree(lambda x: ({**made(x)}, dict(made(x)), made(x).copy(), len(made(x)), bool(made(x))), signs())


def test_an_optional_item_is_passed_as_a_keyword():
    def f(x):
        options = {"scale": 2}
        if x.sum() > 0:
            options["bias"] = x

        def affine(value, scale=1, bias=0):
            return value * scale + bias

        def count(value, **given):
            return value * len(given), sorted(given)

        return affine(x, **options), count(x, **options), dict(**options), {**options, "z": 1}

    agree(f, signs())


def test_each_branch_may_remove_another_item():
    def f(x):
        d = {"a": x, "b": x + 1}
        if x.sum() > 0:
            del d["a"]
        else:
            d.pop("b")
        return d, "a" in d, len(d)

    agree(f, signs())


def test_removed_and_made_again():
    def f(x):
        d = {"a": x, "b": x + 1}
        if x.sum() > 0:
            del d["b"]
        d["b"] = x
        return d

    agree(f, signs())


def test_a_loop_may_make_an_item():
    def f(x, n):
        d = {"a": x}
        while n > 0:
            d["last"] = x * n
            n = n - 1
        return d, "last" in d

    import torch

    agree(f, [(torch.ones(2), torch.tensor(n)) for n in (0, 1, 3)])


def test_removing_what_is_not_there():
    def f(x):
        d = made(x)
        del d["c"]
        return d

    agree(f, signs())


def test_hasattr_and_getattr_see_an_optional_attribute():
    def f(x):
        box = Box()
        if x.sum() > 0:
            box.c = x + 1
        return hasattr(box, "c"), getattr(box, "c", x), getattr(box, "c", None)

    agree(f, signs())


def test_attribute_that_is_not_there():
    def f(x):
        box = Box()
        if x.sum() > 0:
            box.c = x + 1
        return box.c

    agree(f, signs())


def test_loops_over_a_dict_see_its_optional_items():
    def f(x):
        total = x
        d = made(x)
        for value in d.values():
            total = total + value
        for key in d:
            total = total * d[key]
        return total

    agree(f, signs())
