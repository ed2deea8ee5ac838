"""Both lowerings of a program, the Python of the native executor and the C++ of ``dy2st-run``, and what differs.

    python -m tests.runtime.lowerings FILE

compares the programs of a file that :func:`described` wrote line by line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dy2st_runtime.archive.blocks import BlockReader, BlockWriter
from dy2st_runtime.errors import SaveError
from dy2st_runtime.executors.native import build
from dy2st_runtime.executors.native.lowering import lower
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.program import Block, Location, Program

MAIN = Path(__file__).with_name("lowered.cpp")


def described(program: Program) -> str | None:
    """What an archive says of a program's blocks, in one line; nothing where one holds what no archive can.

    The signature is not in it: programs whose arguments or effects no archive can hold are compared as well.
    """
    writer = BlockWriter()
    try:
        writer.add_block(program.block)
    except SaveError:
        return None
    return json.dumps({"sources": [list(source) for source in writer.sources], "blocks": writer.blocks})


def in_python(line: str) -> str:
    """The instructions of a described program as the native executor has them, then the user's line of each."""
    document = Json(json.loads(line), "a program")
    lowered = lower(_Blocks(BlockReader(document, ()).read_blocks(document.field("blocks"))))
    library = build.library()
    assert library is not None
    listing = library.Machine(lowered.described(_never)).listing()
    return "\n".join([listing, *(f"at{_place(instruction.location)}" for instruction in lowered.instructions)])


def in_cpp(lines: Sequence[str]) -> list[str]:
    """The same of ``dy2st-run``; what it says instead of a program that needs Python begins with ``refused:``."""
    runner = build.build_standalone("lowered", MAIN, quiet=True)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        done = subprocess.run([str(runner), file.name], capture_output=True, check=True)
    found = done.stdout.decode("utf-8", "replace").split("\0")[:-1]
    assert len(found) == len(lines)
    return found


def differences(lines: Sequence[str]) -> Iterator[str]:
    """For each program that ``dy2st-run`` takes and lowers otherwise: both listings."""
    for line, other in zip(lines, in_cpp(lines), strict=True):
        if not is_refused(other) and (own := in_python(line)) != other:
            yield f"{line}\n--- Python\n{own}\n--- C++\n{other}"


def is_refused(listing: str) -> bool:
    """Whether ``dy2st-run`` says that a program needs Python; another reason is a mistake."""
    if not listing.startswith("refused: "):
        return False
    assert "needs Python" in listing, listing
    return True


class _Blocks:
    """What :func:`lower` takes of a program."""

    def __init__(self, block: Block) -> None:
        self.block = block


def _never(index: int) -> Any:
    raise AssertionError("the program is not run")


def _place(location: Location | None) -> str:
    return "" if location is None else f' (File "{location.file}", line {location.line}, in {location.function})'


if __name__ == "__main__":
    found = list(differences(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
    print("\n\n".join(found))
    sys.exit(bool(found))
