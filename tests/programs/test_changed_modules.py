"""Modules that the captured code changes by the methods of torch: mode, freezing, what is registered, parameters that are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dy2st import to_static
from dy2st.errors import CaptureError
from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[tuple[type[nn.Module], int]] = []


def case(programs: int) -> Any:
    """A module whose calls need so many programs."""

    def keep(kind: type[nn.Module]) -> type[nn.Module]:
        CASES.append((kind, programs))
        return kind

    return keep


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm, self.linear = nn.Dropout(0.5), nn.BatchNorm1d(2), nn.Linear(2, 2)
        self.register_buffer("kept", torch.zeros(2))


def state_of(module: nn.Module) -> Any:
    return [
        (name, part.training, [p.requires_grad for p in part.parameters(False)], *(list(table) for table in tables(part)))
        for name, part in module.named_modules()
    ]


def tables(module: nn.Module) -> Any:
    return module._parameters, module._buffers, module._modules, [name for name in vars(module) if name != "forward"]


@case(2)
class ModeInBothBranches(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.drop.eval()
        else:
            self.drop.train()
        return self.drop(x)


@case(2)
class ModeOfAllInOneBranch(Base):
    def forward(self, x):
        y = self.drop(x)
        if x.sum() > 0:
            self.eval()
        return y + self.drop(x), self.norm(x.expand(3, 2)), self.training


@case(2)
class ModeInALoop(Base):
    def forward(self, x):
        while x.sum() > 0:
            x = self.drop(x) - 1
            self.drop.eval()
        return x


@case(1)
class ModeForAWhile(Base):
    def forward(self, x):
        was = self.training
        self.eval()
        y = self.norm(x.expand(3, 2))
        self.train(was)
        return y, self.norm(x.expand(3, 2))


@case(2)
class ModeThatIsTheCondition(Base):
    def forward(self, x):
        self.train(bool(x.sum() > 0))
        return self.drop(x)


@case(3)
class ModeByAMethodOfTheUsers(Base):
    def __init__(self):
        super().__init__()
        self.inner = Base()
        self.calls = 0

    def train(self, mode=True):
        super().train(mode)
        self.inner.norm.eval()
        self.last = mode
        return self

    def forward(self, x):
        if x.sum() > 0:
            self.train(False)
        else:
            self.train()
        return self.inner.norm.training, self.inner.drop.training, self.last


@case(2)
class ModeOfWhatTorchCombines(Base):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(2, 1, 4)
        self.cell = nn.LSTM(2, 2, 2, dropout=0.5)

    def forward(self, x):
        if x.sum() > 0:
            self.encoder.self_attn.eval()
            self.cell.eval()
        return self.encoder(x.expand(3, 2)), self.cell(x.expand(3, 2))[0]


@case(2)
class SettingOfATorchModule(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.drop.inplace = True
        y = x * 2
        return self.drop(y), y


@case(2)
class Freezing(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.linear.requires_grad_(False)
        return self.linear(x)


@case(2)
class FreezingOneByOne(Base):
    def forward(self, x):
        if x.sum() > 0:
            for p in self.linear.parameters():
                p.requires_grad = False
        return self.linear(x)


@case(1)
class FreezingForAWhile(Base):
    def forward(self, x):
        self.linear.weight.requires_grad = False
        y = self.linear(x)
        self.linear.weight.requires_grad = True
        return y, y.requires_grad, self.linear(x)


@case(2)
class BufferMadeInABranch(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.register_buffer("late", x * 2)
        return x


@case(2)
class BufferMadeOnce(Base):
    def forward(self, x):
        if not hasattr(self, "late"):
            self.register_buffer("late", x * 2, persistent=False)
        return self.late + x


@case(3)
class BufferOfNothing(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.register_buffer("late", None)
        return hasattr(self, "late")


@case(2)
class ParameterMadeInABranch(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.register_parameter("late", nn.Parameter(x * 2))
            self.linear.weight = nn.Parameter(self.linear.weight * 2)
        return self.linear(x)


@case(2)
class ParameterGiven(Base):
    def forward(self, x):
        self.late = nn.Parameter(x * 2)
        return self.late, [self.late], self.late * 3


@case(2)
class ParameterTakenAway(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.linear._parameters["bias"] = None
        return self.linear(x)


@case(3)
class SubmoduleByEitherWay(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.add_module("late", self.linear)
        else:
            self.late = self.norm
        return "late" in self._modules, len(self._modules), [*self._modules]


@case(3)
class SubmoduleOfNothing(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.add_module("late", self.linear)
        else:
            self.add_module("late", None)
        return self.late is None


@case(3)
class ParameterAsBuffer(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.register_buffer("late", self.linear.weight)
        return x * 2


@case(3)
class ParameterOrNothingAsBuffer(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.register_buffer("late", self.linear.weight)
        else:
            self.register_buffer("late", None)
        return x * 2


@case(2)
class SubmodulesOfATable(Base):
    def forward(self, x):
        if x.sum() > 0:
            self._modules.update(late=self.linear)
            self._modules.pop("drop")
        return [*self._modules], hasattr(self, "late")


@case(1)
class BufferByItsTable(Base):
    def forward(self, x):
        if x.sum() > 0:
            self._buffers["kept"] = x * 2
        else:
            self.kept = x * 3
        return self.kept


@case(2)
class TablesThatAreCleared(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.linear._parameters.clear()
        return x


@case(1)
class HookForAWhile(Base):
    def forward(self, x):
        seen = []
        handle = self.linear.register_forward_hook(lambda module, args, out: seen.append(out))
        y = self.linear(x)
        handle.remove()
        return y, seen


@pytest.mark.parametrize(("kind", "programs"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_module_that_is_changed(kind: type[nn.Module], programs: int) -> None:
    def make() -> World:
        torch.manual_seed(0)
        module = kind()

        def step(x: torch.Tensor) -> Any:
            def call(function: Any) -> Any:
                torch.manual_seed(1)
                return function(x), state_of(module)

            return call

        return World(module, [module], [step(x) for x in (N, N, P, N, P)])

    agree(make, programs=programs)


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.linear.register_forward_hook(lambda *args: None),
        lambda module: nn.utils.parametrizations.weight_norm(module.linear),
    ],
)
def test_what_no_branch_can_do_to_a_module(change: Any) -> None:
    class Net(Base):
        def forward(self, x):
            if x.sum() > 0:
                change(self)
            return self.linear(x)

    net = to_static(Net())
    with pytest.raises(CaptureError, match="test_changed_modules.py"):
        net(N)
    assert not net.linear._forward_hooks
    assert type(net.linear) is nn.Linear


def test_an_attribute_that_each_branch_keeps_elsewhere() -> None:
    class Net(Base):
        def forward(self, x):
            if x.sum() > 0:
                self.late = x
            else:
                self.register_buffer("late", self.linear.weight)
            return x

    net = to_static(Net())
    with pytest.raises(CaptureError, match=r"where a module keeps its attribute 'late'(.|\n)*test_changed_modules.py"):
        net(N)
    assert not hasattr(net, "late")


@pytest.mark.parametrize("listed", [False, True])
def test_a_parameter_is_made_at_each_call(listed: bool) -> None:
    class Net(Base):
        def forward(self, x):
            made = nn.ParameterList([self.linear.weight.data])[0] if listed else nn.Parameter(self.linear.weight)
            return made * x, made

    net = to_static(Net())
    (_, first), (product, second) = net(N), net(P)
    assert type(first) is type(second) is nn.Parameter
    assert first is not second
    assert first.data_ptr() == net.linear.weight.data_ptr()
    product.sum().backward()
    assert first.grad is None
    assert second.grad is not None
    assert len(net.forward.program_cache) == 1


class Placed(nn.Module):
    """Moves its parts to where they are."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        if x.sum() > 0:
            x = self.inner.to(x.device)(x)
        self.cpu()
        return self.head.float()(x), self.to(torch.float32) is self, self.to("cpu", non_blocking=True) is self


def test_a_module_that_is_moved_to_where_it_is_stays_as_it_is():
    model = Placed().eval()
    static = to_static(model)
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        expected, *rest = Placed.forward(model, x)
        found, *others = static(x)
        assert torch.equal(expected, found) and rest == others == [True, True]
    assert len(static.forward.program_cache) == 1
    static.head.double()
    with pytest.raises(CaptureError, match="registers 'bias'"):
        static(torch.ones(2, 3))
