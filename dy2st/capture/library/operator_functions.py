"""The functions of ``operator`` whose operator is rewritten: they do what the operator does."""

from __future__ import annotations

import functools
import operator
from typing import Any, cast

import torch

from dy2st.capture.attributes import access, attributes
from dy2st.capture.containers import lists, tuples
from dy2st.capture.library.conversions import NOTHING, given_integer
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.looping.truth import logical_not, truth
from dy2st.capture.operators import comparisons, relations
from dy2st.capture.session.session import Session

_INPLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift", "irshift")


def _like(function: Any) -> Handler:
    """Return the handler for an operator that knows the capture by itself."""

    def handle(session: Session, *operands: Any) -> Any:
        return function(*operands)

    return handle


handles(operator.not_, takes_unions=True)(_like(logical_not))
handles(operator.is_, takes_unions=True)(_like(comparisons.is_))
handles(operator.is_not, takes_unions=True)(_like(lambda left, right: logical_not(comparisons.is_(left, right))))
handles(operator.eq)(_like(comparisons.equal))
handles(operator.ne)(_like(comparisons.not_equal))
for _symbol, _relation in relations.RELATIONS.items():
    handles(_relation)(_like(functools.partial(relations.related, _symbol)))
handles(operator.contains, takes_unions=True)(_like(lambda container, value: comparisons.in_(value, container)))
handles(operator.getitem, takes_unions=True)(_like(access.item))
handles(operator.setitem, takes_unions=True)(_like(access.set_item))
handles(operator.delitem)(_like(access.del_item))


@handles(operator.add, operator.concat)
def _add(session: Session, left: Any, right: Any) -> Any:
    """Return two lists, of which one may be of the program."""
    are_lists = isinstance(right, list) and getattr(type(left), "__add__", None) is list.__add__
    return lists.concat(session, left, right) if are_lists else left + right


@handles(operator.mul)
def _multiply(session: Session, left: Any, right: Any) -> Any:
    return tuples.multiplied(session, left, right)


@handles(operator.truth, takes_unions=True)
def _truth(session: Session, value: Any) -> Any:
    return truth(session, value)


@handles(operator.index)
def _index(session: Session, value: Any) -> Any:
    if isinstance(value, (torch.Tensor, torch.SymInt)):
        return session.to_number(value)
    own = given_integer(session, value, "__index__")
    return operator.index(value) if own is NOTHING else own


def _inplace(function: Any) -> Handler:
    def handle(session: Session, target: Any, value: Any) -> Any:
        return access.inplace(function, target, value)

    return handle


for _name in _INPLACE:
    handles(getattr(operator, _name))(_inplace(getattr(operator, _name)))


handles(operator.iconcat)(_inplace(operator.iadd))


def call_getter(session: Session, getter: Any, args: Any, kwargs: Any) -> Any:
    """Call an ``itemgetter`` or ``attrgetter``."""
    (target,) = args
    kind, names = cast(Any, getter.__reduce__())[:2]
    results = tuple(_got(kind, target, name) for name in names)
    return results[0] if len(results) == 1 else results


def _got(kind: type, target: Any, name: Any) -> Any:
    if kind is operator.itemgetter:
        return access.item(target, name)
    for part in name.split("."):
        target = attributes.attr(target, part)
    return target


def call_method_caller(session: Session, caller: Any, args: Any, kwargs: Any) -> Any:
    """Call a ``methodcaller``."""
    (target,) = args
    maker, given = cast(Any, caller.__reduce__())[:2]
    every = [*getattr(maker, "args", ()), *given]
    return session.call(attributes.attr(target, every[0]), *every[1:], **getattr(maker, "keywords", {}))
