"""One capture: converted code runs once, on fake tensors, and leaves a program behind."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from dy2st import errors
from dy2st.capture.environment.request import Request
from dy2st.capture.environment.sources import Source
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.checks import Checks
from dy2st.capture.recording.fake_values import FakeValues
from dy2st.capture.recording.in_flight import InFlight
from dy2st.capture.recording.position import Position
from dy2st.capture.recording.recorder import Recorder, fresh_number, record_number
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.blocks import Blocks, set_grad_mode
from dy2st.capture.session.carried import Carried
from dy2st.capture.session.chosen_tuples import ChosenTuples
from dy2st.capture.session.frames import Frames
from dy2st.capture.session.iterators import Iterators
from dy2st.capture.session.list_table import ListTable
from dy2st.capture.session.outside import Outside
from dy2st.capture.session.ownership import Ownership
from dy2st.capture.session.regions import Site
from dy2st.capture.session.written_places import WrittenPlaces
from dy2st.capture.types import value_types
from dy2st.capture.types.loop_histories import LoopHistories
from dy2st.capture.types.traits import Traits
from dy2st.capture.values import constant_nodes
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.signals import NeedsMade
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, unpack_list
from dy2st.capture.values.texts import RuntimeString
from dy2st.capture.writes.gradient_slots import Gradients
from dy2st.capture.writes.settings import ChangedSettings
from dy2st_runtime.ir.flattening import follow
from dy2st_runtime.ir.program import Location
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False

_local = threading.local()


@dataclasses.dataclass(frozen=True)
class Operators:
    """What a capture is given from the rooms above it.

    Attributes:
        convert: gives the converted form of a user function, or ``None`` for one that is called as it is.
        call: the call operator.
        over: does something with each option of a tagged union.
        list_: turns a Python list into a list of the program.
        outside_list: does that with a list from outside whose length differs from call to call.
        outside_deque: does that with what is in such a deque.
        outside_object: turns an object from outside that differs from call to call into an input.
        make_early: has the program make an object that blocks inside of this one put in lists.
        namespace: the operators that converted functions name.
        makers: how an abstract value is made for a set, deque or array from outside.
    """

    convert: Callable[[FunctionType], Any]
    call: Callable[..., Any]
    over: Callable[[TaggedUnion, Callable[[Any], Any]], Any]
    list_: Callable[[Session, list[Any]], RuntimeList]
    outside_list: Callable[[Session, list[Any]], RuntimeList]
    outside_deque: Callable[[Session, Any, Any, Source], None]
    outside_object: Callable[[Session, Any, Source], Any]
    make_early: Callable[[Session, NeedsMade], None]
    namespace: Any
    makers: Mapping[type, Callable[[Any], Represents]]


class Session:
    """One capture: its parts, and what they do together.

    Args:
        request: what is captured.
        operators: what it is given from above.

    Attributes:
        position: where the capture is in the user's code.
        traits: what it knows about traits of tensors.
        shapes: the symbols of sizes and numbers.
        fakes: what makes abstract tensors.
        allocations: when objects were made.
        in_flight: exceptions on their way, and what they pass.
        written_by_python: the names of what functions write outside that Python calls when the program runs, with these and where.
        iterators: who may take from them.
        frames: the converted functions that run.
        settings: the settings of torch that the code has changed.
        blocks: branches, loop bodies and attempts that are open.
        outside: the state from outside that the code has met.
        tracker: sources and guards.
        places: what is written.
        lists: lists of the program.
        ownership: which objects the code has made.
        carried: what loops carry that may be what was there before.
        tuples: which tuples may be the same.
        checks: what the program relies on in sizes.
        gradients: what tensors have as their ``grad``.
        histories: what has been seen of loops.
        recorder: the dispatch mode that records.
        open_autocasts: nodes of the autocast contexts that the code is in.
        sites: what became of each control-flow statement.
        converting_library: how many functions of torch run that are converted, since they run as they are written otherwise.
        transforms: the names of the transforms of ``torch.func`` around the code that runs.
        asked: what the user's code asked about the mode of the call, with the line that asked first.
    """

    def __init__(self, request: Request, operators: Operators) -> None:
        self.request, self.operators = request, operators
        self.position, self.traits, self.shapes = Position(), Traits(request.apart), CaptureShapes()
        self.fakes = FakeValues(self.shapes, self.traits)
        self.allocations, self.in_flight, self.iterators = Allocations(), InFlight(), Iterators(request, self.position)
        self.frames = Frames(self.allocations, self.in_flight)
        self.settings = ChangedSettings()
        self.written_by_python: dict[str, tuple[str, errors.Location | None]] = {}
        self.blocks = Blocks(
            self.position,
            self.shapes,
            self.allocations,
            self.in_flight,
            self.iterators,
            self.settings,
            lambda real: self.outside.adopt(real),
        )
        self.outside = Outside(
            self.position, self.fakes, self.traits, self.allocations, self.blocks, operators.makers, request.changed,
            request.tables, request.dynamic_state,
        )  # fmt: skip
        self.tracker = self.outside.tracker
        self.places = WrittenPlaces(self.position, self.blocks, self.allocations, self.outside, self.traits)
        self.lists = ListTable(self.blocks, self.allocations, self.places, lambda items: operators.list_(self, items))
        self.outside.make_list = lambda items: operators.outside_list(self, items)
        self.outside.make_deque = lambda shown, value, source: operators.outside_deque(self, shown, value, source)
        self.outside.make_object = lambda value, source: operators.outside_object(self, value, source)
        self.ownership = Ownership(self.allocations, self.tracker, self.lists)
        self.carried = Carried(self, self.tracker)
        self.tuples = ChosenTuples(self, self.blocks, self.allocations, self.tracker, self.fakes, self.position, self.traits)
        self.checks = Checks(self)
        self.gradients, self.histories = Gradients(), LoopHistories()
        self.shapes.value_of = self._value_of
        self.blocks.on_begin.append(self.tuples.meet)
        self.blocks.on_undo += [self.lists.forget, lambda region: self.checks.forget()]
        self.recorder = Recorder(self)
        self._functions: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self.open_autocasts: list[Any] = []
        self.sites: dict[tuple[str, int, str], Site] = {}
        self.transforms: list[str] = []
        self.converting_library = 0
        self.asked: dict[str, Location | None] = {}

    # -- where we are ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The captured function's name, for messages."""
        return self.request.function.__qualname__

    @property
    def builder(self) -> BlockBuilder:
        """The block that is recorded now."""
        return self.blocks.builder

    def here(self) -> errors.Location | None:
        """Return the user's line that runs now, for an error."""
        return self.position.here()

    def site(self, construct: str, outcome: str, reason: str) -> None:
        """Report what became of the control-flow statement that runs now; "captured" once stays."""
        location = self.position.locate()
        if location is None:
            return
        key = (location.file, location.line, construct)
        known = self.sites.get(key)
        if known is None or known.outcome != "captured":
            self.sites[key] = Site(location, construct, outcome, reason)

    def note_question(self, what: str) -> None:
        """Note that the user's code asks about the mode of the call."""
        if not self.position.asked_by_torch():
            self.asked.setdefault(what, self.position.locate())

    def let_go(self) -> None:
        """Hold nothing of what has been met any longer: the capture has ended."""
        for part in (self.tracker, self.places, self.allocations, self.blocks.may_alias, self.blocks.key_orders):
            for held in vars(part).values():
                if isinstance(held, dict):
                    held.clear()
        self.outside.let_go()

    @contextlib.contextmanager
    def active(self, functions: contextlib.AbstractContextManager[Any]) -> Iterator[BlockBuilder]:
        """Capture everything inside; gives the root block.

        Args:
            functions: the mode that sees the functions of torch.
        """
        outer, _local.session = getattr(_local, "session", None), self
        grad = torch.is_grad_enabled()
        followed, self._functions = follow(self.allocations.followed), functions
        try:
            with _no_saved_tensor_hooks(), self.fakes.mode, enable_python_dispatcher(), functions, self.recorder:
                root = self.blocks.begin_root()
                try:
                    yield root
                finally:
                    self.iterators.drop_suspended()
                    self.blocks.undo_all()
        finally:
            set_grad_mode(grad)  # what the function switches, its program switches when it runs
            _local.session = outer
            follow(followed)
            self.in_flight.forget()
            # torch's caches keep shape environments for a while, and must not keep the session
            self.shapes.on_assumption, self.shapes.value_of = None, lambda symbol: None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Open a scope that records what is inside, where one of the modes is at work on an operation and does not see others."""
        with contextlib.ExitStack() as modes:
            if self._functions not in torch.overrides._get_current_function_mode_stack():
                modes.enter_context(self._functions)
            if get_proxy_mode() is None:
                modes.enter_context(self.recorder)
            yield

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Run code inside as if there were no capture."""
        _local.session = None
        try:
            yield
        finally:
            _local.session = self

    # -- values --------------------------------------------------------------------------------------------------------------

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as converted code does."""
        return self.operators.call(function, *args, **kwargs)

    def new_value(self, kind: value_types.Type) -> Any:
        """Return a value of the capture that nothing has computed yet.

        What a block input or the result of a control node stands for.
        """
        if isinstance(kind, value_types.NumberType):
            return fresh_number(self.shapes, kind.kind)
        if isinstance(kind, value_types.ListType):
            return self.lists.new(kind.element)
        if isinstance(kind, value_types.StringType):
            return RuntimeString()
        assert isinstance(kind, value_types.TensorType)
        return self.fakes.tensor(kind)

    def new_union(self, tag: Any, options: dict[int, Any]) -> TaggedUnion:
        """Return a value that is one of several."""
        return TaggedUnion(self, tag, {key: unpack_list(option) for key, option in options.items()})

    def over(self, union: TaggedUnion, function: Callable[[Any], Any]) -> Any:
        """Do something with a tagged union: an ``if`` over its tag, with the thing done to each option."""
        return self.operators.over(union, function)

    def one_string(self, tag: Any, options: dict[int, Any]) -> RuntimeString:
        """Return the string of the program that is one of several."""
        runtime_string = RuntimeString()
        self.builder.call(control.item_choose, (tag, tuple(options), tuple(options.values())), {}, runtime_string)
        return runtime_string

    def number(self, target: Callable[..., Any], args: Sequence[Any], kind: str) -> Any:
        """Record a function of numbers; see :func:`~dy2st.capture.recording.recorder.record_number`."""
        return record_number(self, target, tuple(args), kind)

    def _value_of(self, symbol: Any) -> Any:
        """Return the value of a number of the program, where what computes it shows that; else ``None``."""
        node = self.builder.node_of_number(symbol)
        try:
            return None if node is None else constant_nodes.value(node, self._stands_for)
        except constant_nodes.NotShown:
            return None

    def _stands_for(self, node: Any) -> Any:
        """Return what an input of a block stands for: a node of an outer block, or a tensor that is made of constants."""
        outer = self.blocks.outer_of(node)
        constant = self.outside.constant_of(node) if outer is None else outer
        if constant is None:
            raise constant_nodes.NotShown
        return constant

    def to_number(self, value: Any) -> Any:
        """Return the number in a tensor with one element; numbers stay as they are."""
        return value.item() if isinstance(value, torch.Tensor) else value


def _no_saved_tensor_hooks() -> contextlib.AbstractContextManager[Any]:
    """Return the user's hooks on what autograd saves are for the tensors of the program, not for those of the capture."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return contextlib.nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def recording() -> Session | None:
    """Return the capture, if the user's code runs now, and not the shape function of an operation."""
    session = current()
    return session if session is not None and get_proxy_mode() is not None else None


def current() -> Session | None:
    """Return the capture that this thread is in."""
    return getattr(_local, "session", None)


def need() -> Session:
    """Return the capture that this thread is in; converted code only runs inside one."""
    session = current()
    assert session is not None, "converted code runs only during a capture"
    return session


def report_site(construct: str, outcome: str, reason: str) -> None:
    """Report what became of the statement that runs now, if there is a capture."""
    session = current()
    if session is not None:
        session.site(construct, outcome, reason)
