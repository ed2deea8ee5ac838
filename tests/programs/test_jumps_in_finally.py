"""`finally` clauses that leave: what they drop, and what is refused."""

import pytest
import torch

import dy2st
from tests.oracle import agree


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


CALLS = [(tensor(1.0, 2.0),), (tensor(-1.0, -2.0),), (tensor(3.0, 4.0),)]


def refused(function, says):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(function)(*CALLS[0])


def test_a_return_wins_over_other_returns():
    def f(x):
        def inner():
            try:
                try:
                    return 1
                finally:
                    return x * 2
            finally:
                if x.sum() > 0:
                    return x * 3
                return x * 4

        return inner()

    agree(f, CALLS)


def test_what_a_dropped_return_evaluates():
    def f(x):
        log = []
        try:
            for i in range(3):
                if x.sum() > i:
                    return log.append(i)
                x = x + 1
        finally:
            log.append(9)
            return x, log

    agree(f, CALLS)


def test_an_exception_is_dropped():
    def f(x):
        try:
            {}["k"]
            x = x * 100
        except ValueError:
            return 5
        else:
            return 6
        finally:
            return x

    agree(f, CALLS)


def test_a_break_drops_an_exception():
    def f(x):
        for i in range(4):
            try:
                x = x + i
                if x.sum() > 0:
                    x = x + 1
                raise KeyError
            finally:
                x = x * 2
                break
        return x, i

    agree(f, CALLS)


def test_an_exception_that_a_tensor_decides():
    def f(x):
        try:
            if x.sum() > 0:
                raise ValueError
        finally:
            return x

    agree(f, CALLS)


def test_finally_runs_when_a_name_is_unbound():
    def f(x):
        if x.sum() > 0:
            y = x
        try:
            x = x * 2
            del y
        finally:
            print("end")
        return x

    agree(f, CALLS)


def test_a_name_unbound_where_a_tensor_decides_is_caught():
    def f(x):
        if x.sum() > 0:
            y = x
        try:
            x = x + y
        except UnboundLocalError:
            x = x + 1
        return x

    agree(f, CALLS)


def leaves_a_loop(x):
    n = 0
    while x.sum() < 10:
        try:
            n += 1
            x = x + 1
            if n > 3:
                return x, n
        finally:
            if x.sum() > 5:
                break
    return x, -n


def goes_on_in_a_loop(x):
    total, k = x * 0, 0
    while k < x.abs().sum():
        k += 1
        try:
            total = total + k
            if k > 4:
                return total
        finally:
            if total.sum() > 30:
                continue
            total = total * 2
        total = total + x
    return total, k


def keeps_a_return(x):
    try:
        if x[0] > 0:
            return x * 2
        x = x - 3
    finally:
        x = x + 1
        if x.sum() > 4 and x[1] > 2:
            return x
    return x * 7


def keeps_an_exception(x):
    try:
        raise ValueError("kept")
    finally:
        if x.sum() > 0:
            return x


def has_handlers(x):
    try:
        y = x
    except ValueError:
        y = x + 1
    else:
        y = x * 2
        if x[0] > 2:
            return y
    finally:
        if x.sum() < 0:
            return x
    return y + 3


def nested(x):
    try:
        try:
            return x
        finally:
            if x.sum() > 4:
                return x + 1
            x = x - 1
    finally:
        if x.sum() < -4:
            return x * 2


WAYS = (leaves_a_loop, goes_on_in_a_loop, keeps_a_return, keeps_an_exception, has_handlers, nested)


@pytest.mark.parametrize("function", WAYS)
@pytest.mark.parametrize("calls", [CALLS, CALLS[::-1]])
def test_leaves_on_some_ways(function, calls):
    agree(function, calls)


def test_on_some_ways_an_error_of_the_capture_is_not_dropped():
    def f(x):
        try:
            x = x * memoryview(x.detach().numpy()).nbytes
        finally:
            if x.sum() > 0:
                return x
        return -x

    refused(f, "asks for the contents of an array")
