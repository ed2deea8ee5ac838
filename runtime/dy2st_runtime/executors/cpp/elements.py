"""Loops over the elements of tensors as C++: what each statement reads and writes, in memory or in a variable of its loop."""

from __future__ import annotations

from collections.abc import Sequence

from dy2st_runtime.executors.cpp.values import (
    Group,
    Item,
    Statement,
    Tensor,
)


class ElementWriter:
    """Collects lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        """Add one more line."""
        self.lines.append(text)

    def in_variable(self, value: Tensor, reader: Item | None) -> bool:
        """Tell whether a reader finds an element in a variable."""
        if not value.variable or value.buffer.mutations or not isinstance(value.item, Group):
            return False
        return value.item is reader or value.item.shape == ()

    # -- loops over elements -------------------------------------------------------------------------------------------

    def group(self, shape: tuple[int, ...], statements: Sequence[Statement], item: Item | None) -> None:
        """Write one loop over all elements, or straight code."""
        if not statements or 0 in shape:
            return
        dims = self.dimensions(shape, statements, item)
        if dims:
            for depth, (size, _) in enumerate(dims):
                if depth == len(dims) - 1:
                    self.line("#pragma GCC ivdep")
                self.line(f"for (int64_t i{depth} = 0; i{depth} < {size}; i{depth}++)")
            self.line("{")
        for statement in statements:
            self.statement(statement, shape, dims, item)
        if dims:
            self.line("}")

    def dimensions(
        self, shape: tuple[int, ...], statements: Sequence[Statement], item: Item | None
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Return the loops of a group: sizes, and the original dimensions that each one stands for."""
        strides = [self.strides(value, shape) for statement in statements for value in self.accesses(statement, item)]
        dims: list[tuple[int, tuple[int, ...]]] = []
        for axis, size in enumerate(shape):
            if size == 1:
                continue
            if dims:
                before_size, before = dims[-1]
                if all(stride[before[-1]] == stride[axis] * size for stride in strides):
                    dims[-1] = (before_size * size, (*before, axis))
                    continue
            dims.append((size, (axis,)))
        return dims

    def accesses(self, statement: Statement, item: Item | None) -> list[Tensor]:
        """Return what a statement reads from memory and writes there."""
        results = [v for v in statement.operands if isinstance(v, Tensor) and not self.in_variable(v, item)]
        if statement.result is not None and statement.result.buffer.stored:
            results.append(statement.result)
        if statement.store is not None:
            results.append(statement.store)
        return results

    def strides(self, value: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of a value, broadcast to a shape."""
        return tuple(value.meta.expand(shape).stride())

    def element(self, value: Tensor, shape: tuple[int, ...], dims: Sequence[tuple[int, tuple[int, ...]]]) -> str:
        """C++ for the element of a value at the place of the loops."""
        strides = self.strides(value, shape)
        parts = [f"i{depth} * {strides[axes[-1]]}" for depth, (_, axes) in enumerate(dims) if strides[axes[-1]]]
        if value.dynamic:
            parts.append(value.dynamic)
        if value.meta.storage_offset() or not parts:
            parts.append(str(value.meta.storage_offset()))
        return f"{value.buffer.name}[{' + '.join(parts)}]"

    def statement(
        self, statement: Statement, shape: tuple[int, ...], dims: Sequence[tuple[int, tuple[int, ...]]], item: Item | None
    ) -> None:
        """Write one statement."""
        operands = []
        for value in statement.operands:
            if isinstance(value, Tensor):
                operands.append(value.variable if self.in_variable(value, item) else self.element(value, shape, dims))
            else:
                operands.append(value)
        text = statement.text.format(*operands)
        if statement.store is not None:
            self.line(f"{self.element(statement.store, shape, dims)} = {text};")
        elif statement.declared is None:
            self.line(text)
        else:
            ctype, name = statement.declared
            self.line(f"const {ctype} {name} = {text}; (void){name};")
            if statement.result is not None and statement.result.buffer.stored:
                self.line(f"{self.element(statement.result, shape, dims)} = {name};")

    # -- operands of other items ---------------------------------------------------------------------------------------

    def pointer(self, value: Tensor) -> str:
        """C++ for the address of a tensor's first element."""
        offset = value.meta.storage_offset()
        parts = [value.buffer.name, *([str(offset)] if offset else []), *([value.dynamic] if value.dynamic else [])]
        return f"({' + '.join(parts)})"

    def scalar(self, value: Tensor | str) -> str:
        """C++ for a condition."""
        if isinstance(value, str):
            return value
        return value.variable if self.in_variable(value, None) else f"*{self.pointer(value)}"
