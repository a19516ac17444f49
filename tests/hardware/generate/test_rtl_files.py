"""The RTL files: packages before their users, only files that a module needs, and rules of style
that no linter checks."""

import re

import pytest

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


ENUM = re.compile(r"typedef enum [^{]*\{([^}]*)\} (\w+);")
FIRST_WORD = re.compile(r"[A-Z][a-z0-9]+(?=[A-Z])")
COMMENT = re.compile(r"//[^\n]*")


@pytest.mark.parametrize("path", [*rtl_files(), FOLDER / PACKAGE], ids=lambda path: path.name)
def test_the_literals_of_an_enum_begin_with_the_same_word(path):
    for body, name in ENUM.findall(COMMENT.sub("", path.read_text())):
        first_words = {
            re.match(r"[A-Z][a-z0-9]+(?=[A-Z])", literal.split("=")[0].strip()) for literal in body.split(",")
        }
        assert None not in first_words, name
        assert len({found.group() for found in first_words if found}) == 1, name


@pytest.mark.parametrize("path", [*rtl_files(), FOLDER / PACKAGE], ids=lambda path: path.name)
def test_lines_have_at_most_100_columns(path):
    assert [line for line in path.read_text().splitlines() if len(line) > 100] == []
