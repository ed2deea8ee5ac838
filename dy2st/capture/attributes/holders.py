"""Objects whose attributes are read and written: behind names, in modules, of libraries."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from dy2st.capture.attributes import tensor_attributes
from dy2st.capture.attributes.class_attributes import (
    LIBRARIES,
)
from dy2st.capture.branching import keys
from dy2st.capture.environment.sources import behind
from dy2st.capture.environment.standard_library import is_followed
from dy2st.capture.environment.users_code import as_written, is_converted_module, is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage

_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


_CONTAINERS = (dict, list, tuple, set, frozenset)
"""Classes whose methods may be those of a class of the user's under another name."""


def holder_of(session: Session, value: Any, name: str) -> Any:
    """Return what holds an attribute of a value during the capture."""
    value = behind(value)
    return tensor_attributes.holder(session, value, name) if tensor_attributes.is_users(value, name) else value


def over_names(session: Session, name: Any, use: Callable[[Any], Any]) -> Any:
    """Do something with an attribute, once for each that it may be."""

    def known(one: Any) -> Any:
        if keys.is_open(one):
            raise keys.refused(session, one, "is the name of an attribute")
        return use(one)

    return keys.over(session, name, known)


def own_method(value: Any, name: str) -> Any:
    """Return the method with which the user's class of a value follows its attributes, if there is one.

    ``__getattr__ = dict.get`` too.
    """
    result = as_written(storage.of_class(type(value), name))
    of_container = isinstance(result, _IN_C) and result.__name__ != name and issubclass(result.__objclass__, _CONTAINERS)
    return result if of_container or is_users_function(result) else None


def is_librarys(function: Any) -> bool:
    module = getattr(function, "__module__", None) or "builtins"
    return module.partition(".")[0] in LIBRARIES and not (is_followed(function) or is_converted_module(module))
