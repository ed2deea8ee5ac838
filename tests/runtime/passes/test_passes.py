import copy
import dataclasses
import functools
import pickle

import pytest
import torch
from torch import nn

import dy2st
from dy2st_runtime.ir.program import Effect
from dy2st_runtime.ir.structure import Const
from dy2st_runtime.passes.loop_invariants import hoist_invariants
from dy2st_runtime.passes.pipeline import optimize
from tests.oracle import same
from tests.runtime.passes.optimized import operators, twice

INFERENCE = functools.partial(optimize, gradients=False)


# ---- to_static(passes=...)


def seen(program):
    seen.programs.append(program)
    return program


@pytest.fixture(autouse=True)
def _empty():
    seen.programs = []


def relu_twice(x):
    if x.sum() > 0:
        x = x.relu().relu()
    return x


def test_each_captured_program_goes_through_the_passes():
    static = dy2st.to_static(relu_twice, passes=[seen, INFERENCE])
    with torch.no_grad():
        assert torch.equal(static(torch.ones(3)), torch.ones(3))
        static(torch.ones(3))
        assert len(seen.programs) == 1 and operators(seen.programs[0]).count("relu") == 2
        assert operators(static.program(torch.ones(3))).count("relu") == 1
        static(torch.ones(4, dtype=torch.float64))
    assert len(seen.programs) == 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu().relu()

    @dy2st.to_static(passes=[seen])
    def method(self, x):
        return self.forward(x)

    @classmethod
    def made(cls, x):
        return cls()(x)


def test_modules_methods_and_copies(tmp_path):
    net = dy2st.to_static(Net(), passes=[seen])
    net(torch.ones(2, 3))
    copy.deepcopy(net)(torch.ones(2, 3))
    pickle.loads(pickle.dumps(net))(torch.ones(2, 3))
    net.method(torch.ones(2, 3))
    assert len(seen.programs) == 4
    dy2st.save(net, tmp_path / "net.dy2st", input_spec=[dy2st.InputSpec([2, 3])])
    assert len(seen.programs) == 6, "both modes are saved"
    assert torch.equal(dy2st.load(tmp_path / "net.dy2st")(torch.ones(2, 3)), net(torch.ones(2, 3)))


def test_class_and_static_methods():
    class Holder:
        @dy2st.to_static(passes=[seen])
        @staticmethod
        def double(x):
            return x * 2

    assert torch.equal(Holder.double(torch.ones(2)), torch.full((2,), 2.0)) and len(seen.programs) == 1


def test_what_a_pass_may_not_do():
    cases = {
        "must return a program, not a NoneType": lambda program: None,
        "changed the effects of the program": lambda program: dataclasses.replace(program, effects=(Effect("x", "set", Const(1)),)),
        "is not valid": lambda program: dataclasses.replace(program, block=type(program.block)(torch.fx.Graph())),
    }
    for message, wrong in cases.items():
        with pytest.raises(dy2st.ProgramError, match=message):
            dy2st.to_static(relu_twice, passes=[wrong])(torch.ones(3))
    with pytest.raises(dy2st.SignatureError, match="passes is a list of functions"):
        dy2st.to_static(relu_twice, passes=[1])
    with pytest.raises(dy2st.SignatureError, match="passes is a list of functions"):
        dy2st.to_static(relu_twice, passes=optimize)


# ---- natural code, with and without


def loop(x, w, n):
    total = x.sum()
    outs = []
    i = 0
    while i < n:
        x = torch.tanh(x @ w.t() + torch.ones(4) * 0.5)
        if x.sum() > 0:
            x = x - w.t()[0]
        total = total + x.sum() + x.sum()
        outs.append(x)
        i += 1
    return x, total, outs


def test_a_loop_does_less():
    with torch.no_grad():
        program = twice(loop, [(torch.ones(2, 4), torch.randn(4, 4), torch.tensor(n)) for n in (3, 0, 1)])
    found = operators(program)
    assert found.count("t") == 2 and found.count("ones") == 1  # one in the loop is left: that of the branch
    body = next(node for node in program.nodes() if str(node.target) == "while_").args[1]
    assert not {"t", "ones"} & {str(node.target).split(".")[1] for node in body.graph.nodes if "aten" in str(node.target)}


def test_nothing_changes_under_autograd():
    twice(loop, [(torch.ones(2, 4), torch.randn(4, 4, requires_grad=True), torch.tensor(n)) for n in (3, 0)], gradients=True)


def written(x, w, n):
    while n > 0:
        y = w.t()
        x = x + y.sum() + w.t().sum()
        w.mul_(0.5)
        n = n - 1
    return x


def test_what_is_written_is_read_again():
    with torch.no_grad():
        twice(written, [(torch.ones(2), torch.ones(2, 2), torch.tensor(n)) for n in (3, 0)])


def distinct(x):
    c = x * 2
    a = x * 2
    b = x * 2
    return a, b, [a], c.sum(), a.relu(), a.relu().relu()


def test_two_results_stay_two_tensors():
    with torch.no_grad():
        static = dy2st.to_static(distinct, passes=[INFERENCE])
        a, b, (c,), _, d, e = static(torch.ones(3))
    assert a is c and len({value.data_ptr() for value in (a, b, d, e)}) == 4
    assert operators(static.program(torch.ones(3))).count("mul") == 2, "one of three, of which one stays inside, goes"


def distinct_views(x):
    a = x + 1
    return a.t().t(), a, x.to(torch.float32), torch.dropout(x, 0.5, False), x * 1


def test_passes_keep_which_results_are_one_object():
    x = torch.ones(3, 3)
    with torch.no_grad():
        p, a, q, r, s = dy2st.to_static(distinct_views, passes=[INFERENCE])(x)
    assert p is not a and p.data_ptr() == a.data_ptr() and q is x and r is x and s is not x and s.data_ptr() != x.data_ptr()


def views_of_unbind(x):
    a, b = (x * 1).unbind(0)
    a.mul_(2)
    return a + b


def test_an_error_of_eager_is_not_lost():
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError) as eager:
        views_of_unbind(x)
    for gradients in (True, False):
        with pytest.raises(RuntimeError) as found:
            dy2st.to_static(views_of_unbind, passes=[functools.partial(optimize, gradients=gradients)])(x)
        assert str(found.value).partition("\n")[0] == str(eager.value).partition("\n")[0]


def fails_after_an_iteration(x, y, n):
    while n > 0:
        x = x + y.view(-1)[7]
        n = n - 1
    return x


def test_what_may_fail_stays_in_the_loop():
    with torch.no_grad():
        static = dy2st.to_static(fails_after_an_iteration, passes=[hoist_invariants, INFERENCE])
        y = torch.ones(4, 4)
        assert torch.equal(static(torch.ones(2), y, torch.tensor(0)), torch.ones(2))
        assert torch.equal(static(torch.ones(2), y, torch.tensor(2)), torch.full((2,), 3.0))
        assert torch.equal(static(torch.ones(2), torch.ones(4, 4).t(), torch.tensor(0)), torch.ones(2)), "no iteration, no error"
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            static(torch.ones(2), torch.ones(4, 4).t(), torch.tensor(1))


def modes(x, w, n):
    total = x.sum()
    while n > 0:
        with torch.autocast("cpu", torch.bfloat16):
            total = total + (w @ w).float().sum()
        total = total + (w @ w).sum()
        n = n - 1
    return total


def test_across_modes_nothing_moves():
    with torch.no_grad():
        twice(modes, [(torch.ones(2), torch.randn(4, 4), torch.tensor(2))])


def random(x, n):
    while n > 0:
        x = x + torch.rand(3) + torch.rand(3) + torch.dropout(torch.ones(3), 0.5, True)
        n = n - 1
    return x


def test_random_numbers_are_drawn_as_often():
    with torch.no_grad():
        twice(random, [(torch.zeros(3), torch.tensor(3))])


def same_object_each_iteration(n):
    outs = []
    while n > 0:
        outs.append(torch.ones(2))
        n = n - 1
    return outs


def test_new_tensors_in_a_list_stay_new():
    a, b = dy2st.to_static(same_object_each_iteration, passes=[INFERENCE])(torch.tensor(2))
    assert a.data_ptr() != b.data_ptr()


def half(x, n):
    while n > 0:
        y = torch.ones(3, dtype=torch.float16).tanh()
        x = x + y
        n = n - 1
    return x


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_passes_change_nothing_for_other_dtypes(dtype):
    with torch.no_grad():
        twice(loop_of_sums, [(torch.arange(4).to(dtype), torch.tensor(n)) for n in (3, 0)])
        twice(half, [(torch.arange(3).to(dtype), torch.tensor(n)) for n in (2, 0)])


def loop_of_sums(x, n):
    while n > 0:
        x = x + (x * 1).abs().abs() + torch.ones(4, dtype=x.dtype) + (-(-(x + 0)))
        n = n - 1
    return x


def test_passes_change_nothing_for_empty_tensors():
    with torch.no_grad():
        twice(loop_of_sums, [(torch.ones(1, 4)[:0], torch.tensor(2))])


def test_same_refuses_a_difference_of_rounding():
    with pytest.raises(AssertionError):
        same(torch.ones(2), torch.ones(2) + 1e-6)


def inner_gradient(x):
    x = x.detach().requires_grad_()
    a, b = (x * 3).exp(), (x * 3).exp()
    (found,) = torch.autograd.grad((a + b.sin()).sum(), x)
    return found, torch.func.grad(lambda v: (v.neg().neg() * v.neg().neg()).sum())(x.detach())


def test_gradients_taken_inside_are_those_of_eager():
    program = twice(inner_gradient, [(torch.randn(5),)])
    assert operators(program).count("exp") == 2
