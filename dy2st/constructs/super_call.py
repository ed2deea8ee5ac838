"""Zero-argument `super()`.

    super().forward(x)      →   super(__class__, self).forward(x)

Python passes the class and the first argument in secret; code that moves into nested functions says it openly.
"""

from __future__ import annotations

import gast

from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites


@rewrites(gast.Call, Phase.DESUGAR)
def rewrite_call(node: gast.Call, context: Context) -> gast.expr:
    """Rewrite `super()` in a function that has a first parameter."""
    is_super = isinstance(node.func, gast.Name) and node.func.id == "super"
    arguments = context.root.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    if not is_super or node.args or node.keywords or not first or "super" in context.local_names:
        return node
    return context.expression("super(__class__, first)", node, first=first[0].id)
