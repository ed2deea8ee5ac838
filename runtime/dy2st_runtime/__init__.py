"""The back end of dy2st: programs, executors and archives. It needs torch and numpy, nothing of the front end."""

from dy2st_runtime.archive.archive import save_programs
from dy2st_runtime.batching import batch
from dy2st_runtime.errors import (
    BatchError,
    DivergenceError,
    Dy2stError,
    ExampleErrors,
    GroupError,
    LoadError,
    ProgramError,
    SaveError,
    SignatureError,
    StepLimitError,
)
from dy2st_runtime.ir.program import Block, Effect, InputSlot, Location, Parameter, Program, StateSlot, verify
from dy2st_runtime.module import LoadedModule, load
from dy2st_runtime.profiling import Profile, profile
from dy2st_runtime.torch_versions import warn_if_untested

warn_if_untested()

__all__ = [
    "BatchError",
    "Block",
    "DivergenceError",
    "Dy2stError",
    "Effect",
    "ExampleErrors",
    "GroupError",
    "InputSlot",
    "LoadError",
    "LoadedModule",
    "Location",
    "Parameter",
    "Profile",
    "Program",
    "ProgramError",
    "SaveError",
    "SignatureError",
    "StateSlot",
    "StepLimitError",
    "batch",
    "load",
    "profile",
    "save_programs",
    "verify",
]
