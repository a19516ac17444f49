"""The order of RTL files: packages before their users, and only files that a module needs."""

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
