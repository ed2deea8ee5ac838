"""An extension of griffe: what docstrings of this project say in their own way, in the form that the site understands.

A role, such as ``:func:`dy2st.save```, becomes a link where the site has what it names. A section ``Example:`` becomes one of code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|data|func|meth|mod|attr):`(~?)([\w.]+)`")
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            text = _ROLE.sub(lambda match: _linked(obj, *match.groups()), obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub("Examples:", text)


def _linked(obj: griffe.Object, short: str, name: str) -> str:
    text = name.rpartition(".")[2] if short else name
    public = name if "." in name else f"{obj.path.partition('.')[0]}.{name}"
    return f'<autoref optional identifier="{public}"><code>{text}</code></autoref>'
