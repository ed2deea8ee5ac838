"""The control-flow targets of a program: what a ``call_function`` node of a block may call besides operators of torch.

A target is a name with a contract; an executor gives it its meaning. Blocks are arguments of the node.

| target | arguments | value |
|---|---|---|
| ``if_`` | pred, then block, else block, operands | tuple of the taken block's outputs |
| ``while_`` | pred, body block, carried, operands | tuple of the last carried values |
| ``transform_`` | name, block, inputs, operands; options | tuple; see :mod:`dy2st_runtime.primitives.transforms` |
| ``apply_`` | a function that another node gave, arguments | what it returns |
| ``assert_`` | condition, exception class, its arguments | none; raises it when the condition is false |
| ``raise_`` | exception class, its arguments | none; raises it |
| ``print_`` | parts, end | none; writes the text of the parts to the standard output |
| ``format_`` | parts | a string |
| ``call_`` | a Python callable, args, kwargs | what it returns |
| ``list_`` | items | a new list |
| ``list_append`` … | list, … | like the method of the same name; the list is changed in place |
| ``list_order`` | list of keys, reverse | the positions of the keys in sorted order |
| ``list_find`` | list of keys, a key | the position of the key as a dict finds it, by its value; -1 if it is not there |
| ``list_take`` | list, positions | a new list of the items at the positions |
| ``list_delete``, ``list_assign`` | list, index or slice, … | like ``del items[i]``, ``items[i:j] = …`` |
| ``list_repeat`` | list, number | ``items * number`` |
| ``list_tensor`` | list, dtype, device, the dtype that is expected | ``torch.tensor(items, …)`` |
| ``list_join`` | list of strings, separator | ``separator.join(items)`` |
| ``item_choose`` … | see :mod:`dy2st_runtime.ir.items` | |

Both blocks of ``if_`` take the operands as inputs. The body of ``while_`` takes the carried values, then the operands, and
gives the next pred, then the next carried values; it runs as long as pred is true. The block of ``transform_`` takes the inputs
of the transformed function, then the operands. A block that changes a tensor or a list in
place changes the caller's.
"""

from __future__ import annotations

from typing import Any


class Control:
    """A control-flow target.

    Attributes:
        name: how it prints and is written to an archive.
        effect: whether it must be kept though nobody uses its value.
    """

    def __init__(self, name: str, effect: bool = True) -> None:
        self.name, self.effect = name, effect
        self.__name__ = self.__qualname__ = name
        self.__module__ = "dy2st_runtime.primitives.control"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self.name} is run by an executor")

    def __deepcopy__(self, memo: dict[int, Any]) -> Control:
        return self

    def __reduce__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


if_ = Control("if_")
while_ = Control("while_")
transform_ = Control("transform_")
apply_ = Control("apply_")
assert_ = Control("assert_")
raise_ = Control("raise_")
print_ = Control("print_")
format_ = Control("format_", effect=False)
call_ = Control("call_")

list_ = Control("list_", effect=False)
list_append = Control("list_append")
list_extend = Control("list_extend")
list_insert = Control("list_insert")
list_set = Control("list_set")
list_pop = Control("list_pop")
list_clear = Control("list_clear")
list_reverse = Control("list_reverse")
list_get = Control("list_get")
list_slice = Control("list_slice", effect=False)
list_len = Control("list_len", effect=False)
list_copy = Control("list_copy", effect=False)
list_concat = Control("list_concat", effect=False)
list_order = Control("list_order", effect=False)
list_find = Control("list_find", effect=False)
list_take = Control("list_take", effect=False)
list_delete = Control("list_delete")
list_assign = Control("list_assign")
list_repeat = Control("list_repeat", effect=False)
list_tensor = Control("list_tensor", effect=False)
list_join = Control("list_join")

item_choose = Control("item_choose", effect=False)
item_make = Control("item_make", effect=False)
item_kind = Control("item_kind", effect=False)
item_of_kind = Control("item_of_kind", effect=False)
item_parts = Control("item_parts", effect=False)
item_open = Control("item_open")
item_owner = Control("item_owner", effect=False)

TARGETS = {
    target.name: target
    for target in (
        if_, while_, transform_, apply_, assert_, raise_, print_, format_, call_,
        list_, list_append, list_extend, list_insert, list_set, list_pop, list_clear, list_reverse, list_get, list_slice,
        list_len, list_copy, list_concat, list_order, list_find, list_take, list_delete, list_assign, list_repeat,
        list_tensor, list_join, item_choose, item_make, item_kind, item_of_kind, item_parts, item_open, item_owner,
    )
}  # fmt: skip
"""Every control target by name; a name stands for one meaning for ever, archives rely on it."""

LIST_CHANGES = (
    list_append, list_extend, list_insert, list_set, list_pop, list_clear, list_reverse, list_delete, list_assign,
)  # fmt: skip
"""Operations that change a list, which is their first operand."""
