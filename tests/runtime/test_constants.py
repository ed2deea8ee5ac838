import math
import struct

import pytest
import torch

from dy2st_runtime import LoadError, SaveError
from dy2st_runtime.ir.constants import DTYPES, decode, dtype_name, encode
from dy2st_runtime.ir.document import Json, dump, parse


class OwnError(KeyError):
    pass


def again(value):
    return decode(parse(dump(encode(value)), "c"))


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 2**100, 1.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, "",
        "a\0é\ud800",
        1j, complex(-0.0, math.inf), (), (1,), [], [(1, [2.0])], slice(None), slice(1, None, -2), torch.float32,
        torch.float8_e5m2,
        torch.device("cpu"), torch.device("cuda:3"), torch.strided, torch.sparse_coo, torch.channels_last_3d,
        ValueError, OSError,
    ],
    ids=repr,
)  # fmt: skip
def test_comes_back_the_same(value):
    found = again(value)
    assert type(found) is type(value)
    assert found == value and repr(found) == repr(value)


def test_nan_and_every_bit_of_a_float():
    assert math.isnan(again(math.nan))
    for number in torch.randn(200, dtype=torch.float64).tolist():
        assert struct.pack("d", again(number)) == struct.pack("d", number)


def test_every_dtype_has_a_name():
    assert all(DTYPES[dtype_name(dtype)] is dtype for dtype in DTYPES.values())


def test_own_exception_class_comes_back_by_name():
    found = again(OwnError)
    assert found is not OwnError and found is again(OwnError)
    assert issubclass(found, KeyError)
    assert (found.__name__, found.__module__, found.__qualname__) == ("OwnError", __name__, "OwnError")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "a value of type object exists only"),
        (torch.ones(1), "a value of type Tensor exists only"),
        (int, "the class int exists only"),
        (KeyboardInterrupt, "the class KeyboardInterrupt"),
        ([{"a": 1}], "a value of type dict exists only"),
        (len, "a value of type builtin_function_or_method"),
    ],
)
def test_live_objects_are_refused(value, message):
    with pytest.raises(SaveError, match=message):
        encode(value)


@pytest.mark.parametrize(
    "data",
    [
        "bare", {}, {"dtype": "float33"}, {"dtype": 1}, {"device": "moon"}, {"float": "1"}, {"slice": [1]},
        {"complex": [1, 2]},
        {"complex": [1.0]}, {"exception": "SystemExit"}, {"exception": "print"}, {"exception": "OwnError"},
        {"str": 1},
        {"exception": "ValueError", "qualname": 1, "module": ""}, {"tuple": {}}, {"unknown": 1}, {"layout": []},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_constant(data):
    with pytest.raises(LoadError, match="^c"):
        decode(Json(data, "c"))


def test_constants_nested_too_deep_are_refused():
    data = 1
    for _ in range(100):
        data = [data]
    with pytest.raises(LoadError, match="at most 64 levels"):
        decode(Json(data, "c"))
