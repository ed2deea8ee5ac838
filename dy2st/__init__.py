"""dy2st: Python control flow on tensors becomes one program.

>>> import dy2st, torch
>>> @dy2st.to_static
... def collatz(n):
...     steps = 0
...     while n != 1:
...         n = n // 2 if n % 2 == 0 else 3 * n + 1
...         steps += 1
...     return steps
>>> collatz(torch.tensor(6))
8

Importing it adds to ``dy2st_runtime``, in the same process: the executor ``"onnxruntime"``; and for the executor ``"inductor"``,
what writes a program with control flow whole. A model that is loaded with ``backend="inductor"`` therefore goes region by region in
a process that imports ``dy2st_runtime`` alone, and whole, where it can, in one that imports ``dy2st``.
"""

from dy2st.api import enable_to_static, export, ignore_module, load, not_to_static, save, save_inference_model, to_static, trace
from dy2st.batching import batch
from dy2st.errors import (
    BackendError,
    BatchError,
    BranchMismatchError,
    BuildError,
    CaptureError,
    ConversionError,
    DataDependentError,
    DivergenceError,
    Dy2stError,
    ExampleErrors,
    ExportError,
    GroupError,
    IslandError,
    LeakError,
    LoadError,
    LoopVariableError,
    ProgramError,
    RewriteError,
    SaveError,
    ServingError,
    SignatureError,
    SourceNotFoundError,
    StepLimitError,
    TableError,
    TracingError,
    UnsupportedSyntaxError,
)
from dy2st.exporting import ExportReport
from dy2st.input_spec import InputSpec
from dy2st.logs import set_code_level, set_verbosity
from dy2st.lowering import whole as _whole
from dy2st.onnx_backend import registration
from dy2st.static.distributed.meeting import DivergenceWarning
from dy2st.static.fallback import EagerCalls, EagerWarning
from dy2st.static.report import IslandCalls, Report
from dy2st.static.rewrite import rewrite
from dy2st.static.static_function import StaticFunction
from dy2st.training import checkpointed, fixed_point
from dy2st.translator import ProgramTranslator, declarative
from dy2st_runtime.executors import whole as _place
from dy2st_runtime.ir.program import Program, verify
from dy2st_runtime.profiling import Profile, profile

_place.provide(_whole.lower)
registration.register()

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "BatchError",
    "BranchMismatchError",
    "BuildError",
    "CaptureError",
    "ConversionError",
    "DataDependentError",
    "DivergenceError",
    "DivergenceWarning",
    "Dy2stError",
    "EagerCalls",
    "EagerWarning",
    "ExampleErrors",
    "ExportError",
    "ExportReport",
    "GroupError",
    "InputSpec",
    "IslandCalls",
    "IslandError",
    "LeakError",
    "LoadError",
    "LoopVariableError",
    "Profile",
    "Program",
    "ProgramError",
    "ProgramTranslator",
    "Report",
    "RewriteError",
    "SaveError",
    "ServingError",
    "SignatureError",
    "SourceNotFoundError",
    "StaticFunction",
    "StepLimitError",
    "TableError",
    "TracingError",
    "UnsupportedSyntaxError",
    "batch",
    "checkpointed",
    "declarative",
    "enable_to_static",
    "export",
    "fixed_point",
    "ignore_module",
    "load",
    "not_to_static",
    "profile",
    "rewrite",
    "save",
    "save_inference_model",
    "set_code_level",
    "set_verbosity",
    "to_static",
    "trace",
    "verify",
]
