"""`match` statements.

    match x:                →   match _dy2st.subject(x):

The patterns are Python's own and choose during the capture, by what is the same at every call: classes, structure, constants.
A subject with a number, a list length or a kind that a tensor decides is refused: a pattern would look at the stand-in.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture import current, patterns
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.Match, Phase.EXPRESSIONS)
def rewrite_match(node: gast.Match, context: Context) -> gast.Match:
    """Pass the subject through the operator."""
    node.subject = context.expression("_dy2st.subject(value)", node.subject, value=node.subject)
    return node


@operator("subject")
def subject(value: Any) -> Any:
    """The value that patterns are about to look at."""
    session = current()
    if session is not None:
        patterns.check_subject(session, value)
    return value
