# SPDX-License-Identifier: Apache-2.0
"""The order of RTL files: packages before their users, and only files that a module needs."""

import re

from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, TOP, needed_files, rtl_files


def test_every_file_is_listed_once_with_packages_first():
    names = [path.name for path in rtl_files()]
    assert sorted(names) == sorted(path.name for path in FOLDER.glob("*.sv") if path.name != PACKAGE)
    packages = [name for name in names if name.endswith("_pkg.sv")]
    assert names[: len(packages)] == packages
    assert packages.index("vdla_types_pkg.sv") < packages.index("vdla_compute_pkg.sv")


def test_the_top_needs_every_file():
    assert needed_files(FOLDER / f"{TOP}.sv") == rtl_files()


def test_a_module_needs_what_it_instantiates_and_their_packages():
    names = [path.name for path in needed_files(FOLDER / "vdla_gemm_sum.sv")]
    assert names == ["vdla_types_pkg.sv", "vdla_gemm_pkg.sv", "vdla_adder_tree.sv", "vdla_gemm_sum.sv"]


def test_files_outside_of_the_rtl_come_last_and_may_name_their_neighbours(tmp_path):
    (tmp_path / "vdla_bench.sv").write_text("module vdla_bench; vdla_probe probe (); endmodule\n")
    (tmp_path / "vdla_probe.sv").write_text("module vdla_probe; vdla_ram ram (); vdla_none none (); endmodule\n")
    names = [path.name for path in needed_files(tmp_path / "vdla_bench.sv")]
    assert names == ["vdla_ram.sv", "vdla_bench.sv", "vdla_probe.sv"]


CONDITIONS = {"SYNTHESIS", "VDLA_ULTRA_RAM"}
"""What the text of a file may depend on: assertions and a vendor's cell, the memories of a part."""

EXTENDED = {
    "vdla_accumulator", "vdla_accumulator_lane", "vdla_compute", "vdla_inp_buffer", "vdla_pipeline", "vdla_sequencer",
}  # fmt: skip
"""The modules that have more ports on machines with extensions (ADR 34)."""


def test_the_text_of_other_modules_depends_on_no_configuration():
    for path in FOLDER.rglob("*.sv"):
        text = re.sub(r"//.*", "", path.read_text())
        found = set(re.findall(r"`(?:ifdef|ifndef|elsif|define|undef) (\w+)", text)) - CONDITIONS
        assert found == ({"VDLA_EXTENSIONS"} if path.stem in EXTENDED else set()), path.name
        if found:
            continue
        for header in re.findall(r"^module\b.*?^\);", text, re.MULTILINE | re.DOTALL):
            assert "`" not in header, path.name


def test_attributes_are_literals():
    """Vivado ignores an attribute whose value is a parameter in some places."""
    found = [value for path in FOLDER.rglob("*.sv") for value in re.findall(r"\(\* \w+ = (.*?) \*\)", path.read_text())]
    assert len(found) >= 10
    assert all(re.fullmatch(r'"\w+"', value) for value in found), found
