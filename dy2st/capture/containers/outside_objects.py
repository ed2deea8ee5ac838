"""Objects from outside that differ from call to call: one program serves any of a class.

    self.best = track           the next call finds another object there: it is an input of the program, as one item of a list is

The program has the object itself, and what is in it by what :mod:`dy2st.capture.branching.elements` gives of an item of a list.
"""

from __future__ import annotations

from typing import Any

from dy2st.capture.branching import elements
from dy2st.capture.containers import outside_inputs, outside_lists
from dy2st.capture.environment.sources import Source
from dy2st.capture.session.session import Session
from dy2st.capture.types import mismatches
from dy2st_runtime.primitives import control


def create(session: Session, value: Any, source: Source) -> Any:
    """Have an object from outside be an input of the program, and guard what that relies on; gives what stands for it.

    Raises:
        CaptureError: there is something in it of which a program takes none.
    """
    outside_inputs.check_apart(session, source, [value])
    kind = outside_lists.element_of(session, [value])
    items = outside_lists.take(session, source, [value], kind, session.lists.of_outside, "object")
    outside_lists.guard(session, source, [value], kind, f"is {mismatches.text(kind)}", lambda given: [given])
    root = session.blocks.root.builder
    return elements.given(session, items, root.call_raw(control.list_get, (root.node_of(items), 0)))
