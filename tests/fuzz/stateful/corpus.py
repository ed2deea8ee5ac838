"""Programs with state in text files, as random testing and hand found them.

    ### two_names_of_one_list
    class Box:
        pass
    st = Box()
    def program(x, n):
        ...
    ---
    || torch.ones(2), torch.tensor(0)
    st.items = [];; st.flag = True || torch.ones(2), torch.tensor(3)

A block has a name, the text of a module, and a line for each call: what happens before it, then its arguments.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.fuzz.stateful.program import Call, Program


def read(path: Path) -> dict[str, Program]:
    """The programs of a file, by name."""
    blocks = re.split(r"^### ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for block in blocks:
        name, _, text = block.partition("\n")
        source, _, calls = text.partition("\n---\n")
        assert name.strip() not in found, f"{path.name} has two programs with the name {name.strip()}"
        found[name.strip()] = Program(f"import torch\n{source}\n", tuple(map(_call, filter(str.strip, calls.splitlines()))))
    return found


def _call(line: str) -> Call:
    before, _, arguments = line.partition("||")
    return Call(tuple(part.strip() for part in before.split(";;") if part.strip()), arguments.strip())
