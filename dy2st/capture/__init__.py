"""Capture: run converted code once on fake tensors, and record a program.

Operators of the constructs come here when a value is known only at run time; outside of a capture they behave as Python does.
"""

from dy2st.capture.branching.assertions import capture_assert
from dy2st.capture.branching.branch import capture_if, capture_if_exp
from dy2st.capture.branching.trying import capture_try
from dy2st.capture.calls.caught import capture_with
from dy2st.capture.calls.managers import managed
from dy2st.capture.iterables.watching import looped
from dy2st.capture.looping.iteration import capture_for
from dy2st.capture.looping.loop import capture_while
from dy2st.capture.looping.truth import condition, decided, logical_not, truth_value
from dy2st.capture.raising.exceptions import raised, raised_from
from dy2st.capture.raising.unwinding import finalized, handled
from dy2st.capture.session.session import current, report_site
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.signals import Signal
from dy2st.capture.values.symbolic import Undefined

ACTS_FOR_USER = True

SIGNALS = (Signal,)
"""What a capture sends through the user's code."""

__all__ = [
    "SIGNALS",
    "Undefined",
    "capture_assert",
    "capture_for",
    "capture_if",
    "capture_if_exp",
    "capture_try",
    "capture_while",
    "capture_with",
    "condition",
    "current",
    "decided",
    "finalized",
    "handled",
    "is_symbolic",
    "logical_not",
    "looped",
    "managed",
    "raised",
    "raised_from",
    "report_site",
    "truth_value",
]
