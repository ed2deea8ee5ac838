"""Which functions of torch the capture takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.session.session import Session

Handler = Callable[[Session, Any, tuple[Any, ...], dict[str, Any]], Any]


HANDLERS: dict[Any, Handler] = {}


def handles_torch(*functions: Any) -> Callable[[Handler], Handler]:
    """Register the handler of some functions and methods of torch, whoever calls them."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register
