"""The defaults of a function: a container among them that the caller has left to the default is an argument of the call."""

from __future__ import annotations

from typing import Any

from dy2st.capture.environment.sources import Source
from dy2st.capture.environment.tracking import Tracker

ACTS_FOR_USER = False


def read(tracker: Tracker, defaults: Any, source: Source) -> None:
    """Guard the defaults of a function, given by position (a tuple) or by name (a dict)."""
    if with_arguments(tracker, defaults) is defaults:
        tracker.read(defaults, source)
        return
    tracker.guards.same_keys(source, defaults)
    for key, item in defaults.items() if isinstance(defaults, dict) else enumerate(defaults):
        step = tracker.table.item(source, key)
        argument = tracker.source_of(item) if id(item) in tracker.given else None
        if argument is None:
            tracker.read(item, step)
        else:
            tracker.guards.same_object(step, argument)


def with_arguments(tracker: Tracker, defaults: Any) -> Any:
    """Return the defaults with what stands for the containers among them that are arguments of the call, too."""
    items = list((defaults.values() if isinstance(defaults, dict) else defaults) or ())
    if not any(id(item) in tracker.given for item in items):
        return defaults
    results = [tracker.given[id(item)][1] if id(item) in tracker.given else item for item in items]
    return dict(zip(defaults, results)) if isinstance(defaults, dict) else tuple(results)
