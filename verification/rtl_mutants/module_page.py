# SPDX-License-Identifier: Apache-2.0
"""The generator of docs/module-checks.md: what checks each module of the RTL.

All of it is read from what there is: the files, their properties, the tests that
`verification/rtl_mutants/benches.py` runs on defects, the harnesses of proofs and what they say.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from vdla.hardware.generate.extension_files import extension_rtl_files
from vdla.hardware.generate.isa_page import table
from vdla.hardware.generate.rtl_files import FOLDER, rtl_files
from vdla.verification.rtl_mutants.benches import BENCHES
from vdla.verification.rtl_mutants.campaign import all_defects
from vdla.verification.rtl_mutants.machines import mutated_machines

FORMAL = FOLDER.parent / "formal"
EXTENSIONS = "test_extensions"
"""The tests of what only machines with extensions have."""
_WIDTH = 100
_HEADER = re.compile(r"\A// SPDX[^\n]*\n((?://[^\n]*\n)+)")
_INTRODUCTION = """\
# What checks each module

After this page you know, for each module of the RTL, which tests, properties and proofs it has, and
how many defects `vdla bench rtl_mutants` can plant in it. `python -m
vdla.verification.rtl_mutants.module_page` writes it, and a test compares it with what there is.

The whole machine is checked as the [micro-architecture](microarchitecture.md#how-it-is-checked)
says: equality with the simulator on random programs, and on programs that drive every field of
every format to both ends of its range, on every machine. A module without a bench has constants
only.

```
vdla bench proofs        # proves what is below
vdla bench rtl_mutants   # plants defects, and says what finds each
vdla bench equality      # compares the whole machine with the simulator
```

- **bench**: tests of the module alone against a plain model, in `tests/hardware/rtl`
- **properties**: assertions in its file, which hold in every simulation, from reset on
- **cover**: situations that its bench must reach
- **proof**: its harness in `hardware/formal`, proved by induction
- **defects**: what can be planted in it, on the machines of `vdla bench rtl_mutants` together

The module that a machine's extensions generate, `vdla_ext_datapaths`, is not in the table:
[`vdla selftest --rtl`](extensions.md) checks it against the expressions of its instructions.
"""
_PROVED = """\
## What is proved

For every input that keeps the contract of the module, in every cycle: FIFOs for some depths, the
others for the parameters of every preset by `vdla bench proofs`, and for `tiny` by
`tests/hardware/formal`, which also plants defects that each proof must refute.
"""
_NOT_PROVED = """\
The rules of AXI at the ports of the machine follow, for one, two and four read ports, over starts,
errors and resets by software:

| rule | reads of one port | of several | writes |
|---|---|---|---|
| an address stays until it is accepted | read arbiter | read port | store |
| a burst stays within 4 KiB and the length | fetch, load engine, machine | read port | store |
| beats follow their address, the last is marked |  |  | store |
| no more bursts are outstanding than the limit | read arbiter | read ports | store |
| no reset, start or end with a burst outstanding | machine | machine | machine |

Assumed in the proof of `vdla`, where the modules that show it are free: fetch and load engines
offer a burst until it is granted, within its page and length, from three cycles after the start
of fetch (their proofs); the store unit begins none while it is halted, and what it offers is
outstanding (its proof); limits stay and a start finds the machine idle (tests of the registers);
an instruction ends after its last beat or response (equality with the simulator, and an assertion
in every simulation). The memory answers what it was asked, and nothing else. FIFOs that a proof
leaves out are what `vdla_fifo` is shown to be; that of the beats of a port has the room that the
contract promises.

Not proved but tested: arithmetic other than the requantiser's, the instructions' checks, the
schedules of micro-ops, registers and counters.
"""


def render() -> str:
    """The text of the page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    heads = ("module", "bench", "properties", "cover", "proof", "defects")
    yield from table(heads, list(_rows()))
    yield ""
    yield _PROVED
    for path in sorted(FORMAL.glob("*.sv")):
        text = f"- **{path.stem.removesuffix('_proof')}**: {_statement(path)}"
        yield textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_long_words=False)
    yield ""
    yield _NOT_PROVED


def _rows() -> Iterator[tuple[str, ...]]:
    planted = Counter(defect.module for defect in all_defects(mutated_machines()))
    for path in (*rtl_files(), *extension_rtl_files()):
        text, benches = path.read_text(encoding="utf-8"), BENCHES.get(path.stem)
        of_extensions = path in extension_rtl_files()
        files = benches.files if benches else (EXTENSIONS,) if of_extensions else ()
        yield (
            f"`{path.stem}`",
            ", ".join(f"`{name}`" for name in files),
            str(len(re.findall(r"\bassert property\b", text))),
            str(len(re.findall(r"\bcover property\b", text))),
            f"`{benches.proof}`" if benches and benches.proof else "",
            str(planted[path.stem]),
        )


def _statement(path: Path) -> str:
    """What the header of a harness says is proved."""
    match = _HEADER.match(path.read_text(encoding="utf-8"))
    assert match is not None, f"{path.name} must say what it proves"
    lines = (line.removeprefix("//").strip() for line in match[1].splitlines())
    return " ".join(takewhile(bool, lines)).removeprefix("Proof: ")


def main() -> None:
    """`python -m vdla.verification.rtl_mutants.module_page > docs/module-checks.md`."""
    print(render(), end="")


if __name__ == "__main__":
    main()
