"""Objects, lists and dicts that hold themselves: trees with parents, linked nodes, registries of their own."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest
import torch

import dy2st
from tests import oracle as outcomes
from tests.worlds import World, agree

P, N = torch.ones(2), -torch.ones(2)


class Plain:
    """A node of a tree, of a list, or both."""

    def __init__(self, v: Any, parent: Any = None) -> None:
        self.v, self.parent = v, parent
        self.children: list[Any] = []
        self.next: Any = None
        self.prev: Any = None
        self.me = self
        if parent is not None:
            parent.children.append(self)


@dataclasses.dataclass(eq=False)
class Data:
    """The same as a dataclass."""

    v: Any
    parent: Any = None
    children: list[Any] = dataclasses.field(default_factory=list)
    next: Any = None
    prev: Any = None
    me: Any = None

    def __post_init__(self) -> None:
        self.me = self
        if self.parent is not None:
            self.parent.children.append(self)


class Slots:
    """The same with slots."""

    __slots__ = ("children", "me", "next", "parent", "prev", "v")

    def __init__(self, v: Any, parent: Any = None) -> None:
        self.v, self.parent, self.children, self.next, self.prev, self.me = v, parent, [], None, None, self
        if parent is not None:
            parent.children.append(self)


KINDS = (Plain, Data, Slots)


def _tree(kind: Any) -> Any:
    root = kind(torch.zeros(2))
    for _ in range(2):
        kind(torch.ones(2), root)
    return root


def itself(x, o):
    if x.sum() > 0:
        o.me.v = o.v + x
    else:
        o.v = o.me.v * 2
    return o.v, o, o.me


def leaves_to_root(x, o):
    for child in o.children:
        if x.sum() > 0:
            child.parent.v = child.parent.v + child.v
            child.v = child.v * 2
    return o.v, o.children[0].parent, o.children


def child_is_given(x, o):
    child = o.children[1]
    if x.sum() > 0:
        child.parent.v = x
    return child, child.parent.v


def moves(x, o):
    if x.sum() > 0:
        last = o.children.pop()
        last.parent = None
    return len(o.children), o.children[0].parent is o


def swaps_links(x, o):
    one, two = o.children[0], o.children[-1]
    one.next, two.prev = two, one
    if x.sum() > 0:
        one.next.prev.v = x
    return one.next, one.v


def while_up(x, o):
    node, depth = o.children[0], torch.zeros(())
    while x.sum() > 0:
        node.parent.v = node.parent.v + x
        x = x - 1
        depth = depth + 1
    return node.parent.v, depth


def is_asked(x, o):
    if o.me is o and o.children[0].parent is o:
        return x + 1
    return x


PROGRAMS = (itself, leaves_to_root, child_is_given, swaps_links, while_up, is_asked)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_tree_with_parents_is_an_argument_as_in_eager(program: Any, kind: Any) -> None:
    def make() -> World:
        root = _tree(kind)
        return World(program, [root], [lambda f, x=x: f(x, root) for x in (P, N, P, N)])

    agree(make, programs=2)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_several_arguments_of_one_tree(kind: Any) -> None:
    def program(x, root, child, children):
        if x.sum() > 0:
            child.parent.v = x
            children[1].v = root.v + 1
        return child.v, root.v, children[0] is child, root

    def make() -> World:
        root = _tree(kind)
        given = (root, root.children[0], root.children)
        turned = (root, root.children[1], root.children)
        return World(
            program,
            [root],
            [lambda f, x=x, a=a: f(x, *a) for x, a in ((P, given), (N, given), (P, turned), (N, turned), (P, given))],
        )

    agree(make)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_another_shape_is_another_program(kind: Any) -> None:
    def program(x, o):
        if o.me is not None and x.sum() > 0:
            o.me.v = o.v + 1
        return o.v

    def make() -> World:
        one, two, three = kind(torch.zeros(2)), kind(torch.zeros(2)), kind(torch.zeros(2))
        two.me, three.me = three, None
        return World(program, [one, two, three], [lambda f, o=o: f(P, o) for o in (one, two, three, one, two)])

    agree(make, programs=3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_made_in_the_function(kind: Any) -> None:
    def program(x):
        root = kind(x)
        kind(x + 1, root)
        if x.sum() > 0:
            root.me.v = x * 2
            root.children[0].parent.children[0].v = root.v
            root.next = root
        return root, root.v

    agree(lambda: World(program, [], [lambda f, x=x: f(x) for x in (P, N, P)]), programs=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_chain_of_linked_nodes_is_made_in_one_program(kind: Any) -> None:
    def program(x):
        head = node = kind(x)
        for _ in range(3):
            new = kind(node.v + 1)
            new.prev, node.next = node, new
            node = new
        if x.sum() > 0:
            node.prev.prev.v = x * 5
        return head, node

    agree(lambda: World(program, [], [lambda f, x=x: f(x) for x in (P, N)]), programs=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hung_into_what_was_there(kind: Any) -> None:
    def program(x, root):
        node = kind(x, root)
        if x.sum() > 0:
            root.v = node.parent.v + node.v
        root.next = node
        return node

    def make() -> World:
        root = _tree(kind)
        return World(program, [root], [lambda f: f(P, root)])

    agree(make)


def test_lists_and_dicts_as_arguments_may_hold_themselves() -> None:
    def of_list(x, items):
        if x.sum() > 0:
            items[1][0] = x + 1
        return items[0], items[1], items

    def of_dict(x, table):
        if x.sum() > 0:
            table["me"]["v"] = x + 1
            table["list"][0] = x
        return table["v"], table["me"], table["list"][1]

    def make_list() -> World:
        items: list[Any] = [torch.zeros(2)]
        items.append(items)
        return World(of_list, [items], [lambda f, x=x: f(x, items) for x in (P, N, P)])

    def make_dict(kind: Any) -> World:
        table = kind(v=torch.zeros(2))
        table["me"] = table
        table["list"] = [torch.zeros(2), table]
        return World(of_dict, [table], [lambda f, x=x: f(x, table) for x in (P, N, P)])

    agree(make_list, programs=1)
    for kind in (dict, collections.OrderedDict):
        agree(lambda kind=kind: make_dict(kind), programs=1)


def test_lists_and_dicts_from_outside() -> None:
    def make() -> World:
        items: list[Any] = [torch.zeros(2)]
        items += [items, {"items": items, "v": torch.ones(2)}]

        def program(x):
            if x.sum() > 0:
                items[1][0] = x + items[2]["v"]
                items[2]["items"][2]["v"] = x
            else:
                items[2]["n"] = 1
            return items[0], items[2]

        return World(program, [items], [lambda f, x=x: f(x) for x in (P, N, P)])

    agree(make)


def test_lists_and_dicts_that_are_made() -> None:
    def program(x):
        items = [x]
        items.append(items)
        table = {"items": items}
        table["table"] = table
        if x.sum() > 0:
            items[1][0] = x + 1
            table["table"]["v"] = x
        return items, table

    agree(lambda: World(program, [], [lambda f, x=x: f(x) for x in (P, N, P)]), programs=1)


def test_modules_that_know_their_root() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, root: Any) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(2, 2)
            object.__setattr__(self, "root", root)

        def forward(self, x):
            if x.sum() > 0:
                self.root.h = self.root.h + x.detach()
            return self.lin(x)

    class Root(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.ModuleList(Layer(self) for _ in range(2))
            self.h = torch.zeros(2)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x, self.layers[0].root.h

    def make() -> World:
        root = Root()
        return World(root, [], [lambda f, x=x: f(x) for x in (P, N, 3 * P)])

    agree(make)


def test_a_deque_gets_a_number() -> None:
    def make() -> World:
        seen: collections.deque[Any] = collections.deque()

        def program(x, given):
            seen.append(x.item())
            given.append(x.item() + 1)
            return x, seen, given

        given: collections.deque[Any] = collections.deque(maxlen=2)
        return World(program, [seen, given], [lambda f: f(torch.ones(()), given)])

    agree(make)


def test_a_list_that_holds_itself_is_printed_as_in_eager(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x, given):
        items = [1]
        items.append(items)
        print(items, given)
        return x

    table: dict[str, Any] = {"n": 1}
    table["me"] = table
    program(P, table)
    expected = capsys.readouterr().out
    dy2st.to_static(program)(P, table)
    assert capsys.readouterr().out == expected


def out_of_a_branch(x):
    items = [x]
    if x.sum() > 0:
        items = [x + 1]
        items.append(items)
    return items


def carried(x):
    items = [x]
    while x.sum() > 0:
        items = [x]
        items.append(items)
        x = x - 1
    return items


def grows_in_a_branch(x):
    items = [x]
    if x.sum() > 0:
        new = [x, items]
        items.append(new)
        items = new
    return items


@pytest.mark.parametrize("program", [out_of_a_branch, carried, grows_in_a_branch], ids=lambda program: program.__name__)
def test_what_is_refused_has_a_line(program: Any) -> None:
    with pytest.raises(dy2st.CaptureError) as caught:
        dy2st.to_static(program)(P)
    assert caught.value.location is not None and caught.value.location.file == __file__
    assert program.__code__.co_firstlineno <= caught.value.location.line


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.root = _tree(Plain)

    def forward(self, x):
        if x.sum() > 0:
            self.root.children[0].parent.v = x
        return self.root.v + x


def test_a_tree_that_holds_itself_is_saved_only_as_state(tmp_path: Any) -> None:
    """The state that a program keeps in a tree is at its place; results and arguments that hold themselves are refused."""
    row, path, model = dy2st.InputSpec([2]), tmp_path / "m.dy2st", Net()
    dy2st.save(model, path, [row])
    loaded = dy2st.load(path)
    for x in (P, N, P):
        assert torch.equal(loaded(x), model(x))

    def made(x):
        root = Plain(x)
        return root

    with pytest.raises(dy2st.SaveError, match="holds itself"):
        dy2st.save(made, path, [row])
    with pytest.raises(dy2st.SignatureError, match="in input_spec a Data holds itself"):
        dy2st.save(itself, path, [row, _tree(Data)])
    static = dy2st.to_static(itself)
    static(P, _tree(Data))
    with pytest.raises(dy2st.SaveError, match="Data, (and it|which exists)"):
        dy2st.save(static, path, None)


def test_programs_are_printed_and_not_exported(tmp_path: Any) -> None:
    def made(x):
        return Plain(x * 2)

    assert "me=..." in str(dy2st.to_static(made).program(P))
    with pytest.raises(dy2st.SaveError, match="holds itself"):
        dy2st.export(made, tmp_path / "m.pt2", input_spec=[dy2st.InputSpec([2])])


def test_a_default_that_holds_itself_is_changed_in_one_program() -> None:
    def make() -> World:
        node = Data(torch.zeros(2))

        def program(x, node=node):
            if x.sum() > 0:
                node.me.v = x + node.v
            return node

        return World(program, [node], [lambda f, x=x: f(x) for x in (P, N, P)])

    agree(make, programs=1)


def test_an_attribute_that_is_there_on_some_ways() -> None:
    def make() -> World:
        one, other = Data(torch.zeros(2)), Data(torch.zeros(2))
        one.next = other

        def program(x):
            if x.sum() > 0:
                one.next = one
            one.next.extra = x + 1
            return x

        return World(program, [one, other], [lambda f, x=x: f(x) for x in (N, P)])

    agree(make)


def test_it_is_shown_with_tensors() -> None:
    def show(x):
        items = [x]
        items.append(items)
        print(items)
        return f"{items}"

    outcomes.agree(show, [torch.ones(2), torch.zeros(2)])
