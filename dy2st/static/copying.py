"""``copy.copy`` of a module whose ``forward`` was made static: the copy's programs run on the copy's state.

Python copies the ``__dict__`` of an object, and with it the static ``forward``, which is bound to the first one. A reducer in
:data:`copyreg.dispatch_table` makes the copy first and binds its own ``forward`` then; it stands there for a class as long as
there is a static module of it.
"""

from __future__ import annotations

import collections
import copyreg
import weakref
from typing import Any

import torch

from dy2st.static.static_function import StaticFunction, restore

_alive: collections.Counter[type] = collections.Counter()


def bind_copies(module: torch.nn.Module) -> None:
    """Let copies of a module have a static ``forward`` of their own.

    Args:
        module: it has a static ``forward`` in its ``__dict__``. If its class has a reducer of the user's, that one stays.
    """
    kind = type(module)
    if copyreg.dispatch_table.setdefault(kind, _reduced) is _reduced:
        _alive[kind] += 1
        weakref.finalize(module, _died, kind).atexit = False


def _died(kind: type) -> None:
    _alive[kind] -= 1
    if not _alive[kind]:
        del _alive[kind]
        if copyreg.dispatch_table.get(kind) is _reduced:
            del copyreg.dispatch_table[kind]


def _reduced(module: Any) -> Any:
    reduced = module.__reduce_ex__(4)
    if not isinstance(reduced, tuple) or len(reduced) < 3 or not isinstance(reduced[2], dict):
        return reduced
    result, arguments, state, *more = reduced
    forward = state.get("forward")
    if not isinstance(forward, StaticFunction) or forward.instance is not module:
        return reduced
    rest = {name: value for name, value in state.items() if name != "forward"}
    return _restore_module, (result, arguments, forward.__reduce__()[1][1:]), rest, *more


def _restore_module(make: Any, arguments: tuple[Any, ...], parts: tuple[Any, ...]) -> Any:
    module = make(*arguments)
    vars(module)["forward"] = restore(module, *parts)
    bind_copies(module)
    return module


_made = _restore_module  # the name of it in pickles that were written under an earlier version
