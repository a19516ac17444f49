# SPDX-License-Identifier: Apache-2.0
"""`vdla certify`: operators by name, by shape, of a file; program files; its messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers

from vdla.cli import main
from vdla.hardware.isa import COL, Opcode, with_fields
from vdla.hardware.program import Program
from vdla.hardware.program.certificate import ProgramCertificate
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

Capture = pytest.CaptureFixture[str]
SMALL = ["dense", "--shape", "rows=4", "in_features=8", "out_features=4", "--preset", "tiny"]


@pytest.fixture
def compiled(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VDLA_CERTIFICATE", "1")
    path = tmp_path / "dense.vdla"
    assert main(["compile", *SMALL, "-o", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_template_and_its_program_file(compiled: Path, capsys: Capture) -> None:
    assert main(["certify", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("program dense: verified, ")
    assert "computes expression" in printed
    assert main(["certify", *SMALL, "--program", str(compiled)]) == 0
    assert capsys.readouterr().out == printed


def test_a_program_of_another_expression_is_a_finding(compiled: Path, capsys: Capture) -> None:
    words = ["certify", *SMALL[:5], "activation=relu", *SMALL[5:], "--program", str(compiled)]
    assert main(words) == 1
    assert "certify dense: 16 of 16 results differ; result[0, 0, 0, 0] differs" in capsys.readouterr().out
    assert main([*words, "--json", "-"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verified"], document["certified"]) == (True, False)
    assert document["certificate"]["difference"]["element"] == [0, 0, 0, 0]


def test_a_program_file_without_certificate_is_verified_only(compiled: Path, capsys: Capture) -> None:
    replace(Program.load(compiled), certificate=None).save(compiled)
    assert main(["certify", str(compiled)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "not certified: this program file does not say what it must compute "
        f"(vdla certify OPERATOR --program {compiled})"
    )
    assert main(["certify", str(compiled), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {"program": "dense", "verified": True, "certified": False}


@pytest.mark.parametrize("command", ["verify", "certify"])
def test_the_certificate_of_a_program_file_is_proven_again(command: str, compiled: Path, capsys: Capture) -> None:
    assert main([command, str(compiled)]) == 0
    said = capsys.readouterr().out.splitlines()[1].removeprefix(f"{compiled}: ")
    shown = "certificate, proven again: the program computes dense rows=4 in_features=8 out_features=4, expression "
    assert said.startswith(shown)
    assert main(["certify", *SMALL, "--json", "-"]) == 0
    assert said.removeprefix(shown) == json.loads(capsys.readouterr().out)["certificate"]["expression"]


RULE = "of the certificate must be"


@pytest.mark.parametrize(("changes", "rule"), [
    ({"version": 2}, f"version {RULE} 1, got 2"),
    ({"prime": "7"}, f"prime {RULE} 2^61 - 1, got '7'"),
    ({"seed": -1}, f"seed {RULE} from 0 to 2^63 - 1, got -1"),
    ({"lemmas": "0" * 64}, "got '0000000000000000'"),
    ({"program": "0" * 64}, "got '0000000000000000'"),
    ({"expression": "beef"}, "that of dense, got 'beef'"),
    ({"operator": "sparse"}, f"operator {RULE} a template or a layer, got 'sparse'"),
    ({"settings": ("rows=4", "in_features=8", "out_features=4", "activation=relu")}, "that of dense, got "),
    ({"settings": ("rows=1073741824", "in_features=8", "out_features=1024")}, "products, got 8,796,093,022,208"),
    ({"settings": ("rows=4", "in_features=8", "out_features=8")}, "program must have the tensors"),
])  # fmt: skip
def test_a_certificate_that_is_for_something_else_is_refused(
    changes: dict[str, object], rule: str, compiled: Path, capsys: Capture
) -> None:
    program = Program.load(compiled)
    assert program.certificate is not None
    replace(program, certificate=replace(program.certificate, **changes)).save(compiled)
    assert main(["verify", str(compiled)]) == 2
    assert rule in capsys.readouterr().err


def test_a_program_that_computes_something_else_is_refused(compiled: Path, capsys: Capture) -> None:
    program = Program.load(compiled)
    opcodes = program.columns[:, COL["opcode"]]
    words = with_fields(program.config, program.words, {"clip_hi": np.where(opcodes == Opcode.GEMM, 5, 0)})
    wrong = replace(program, words=words)
    assert wrong.certificate is not None
    replace(wrong, certificate=replace(wrong.certificate, program=wrong.digest)).save(compiled)
    assert main(["verify", str(compiled)]) == 2
    assert "certificate must be one that holds, got one that does not: certify dense: " in capsys.readouterr().err


@pytest.mark.parametrize("raw", [None, [], {"version": "1"}, {}])
def test_a_damaged_certificate_is_no_certificate(raw: object) -> None:
    with pytest.raises(TypeError, match="certificate"):
        ProgramCertificate.from_json(raw)


def test_a_function_of_a_file_and_a_definition(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.py"
    body = "    return definitions.matrix_vector(rows=4, columns=8).output"
    path.write_text(f"from vdla import definitions\n\ndef mine():\n{body}\n")
    assert main(["certify", f"{path}:mine", "--preset", "tiny"]) == 0
    assert "certify mine: program " in capsys.readouterr().out
    assert main(["certify", "matrix_vector", "--shape", "rows=4", "columns=8", "--preset", "tiny"]) == 0
    assert "certify matrix_vector: program " in capsys.readouterr().out


@pytest.fixture(scope="module")
def network() -> Model:
    graph = IntegerLayers(0, (1, 4, 3, 3))
    graph.layer("conv")
    graph.layer("max")
    made = graph.graph()
    return compile_network(made, "tiny", place={node.outputs[0]: "vdla" for node in made.nodes})


def test_a_network_that_keeps_its_expressions(network: Model, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "net.vdla"
    network.with_expressions().save(path)
    assert main(["certify", str(path)]) == 0
    first, region, last = capsys.readouterr().out.splitlines()
    assert first == "network g: 1 program verified"
    assert region.startswith("region 1: certified: program ")
    assert last == (
        "certify g: 1 program computes the integer operators of the graph for all inputs; prime 2^61 - 1, seed 0"
    )
    assert main(["certify", str(path), "--seed", "5", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["certified"], document["seed"]) == (True, 5)
    assert [region["verdict"] for region in document["regions"]] == ["certified"]


def test_a_wrong_program_of_a_network_is_a_finding(network: Model, tmp_path: Path, capsys: Capture) -> None:
    """Weights that lie at other places."""
    path, constants = tmp_path / "net.vdla", dict(network.artifact.constants)
    name = next(name for name in constants if name.endswith(".weight"))
    constants[name] = np.ascontiguousarray(constants[name].swapaxes(-1, -2))
    Model(replace(network.with_expressions().artifact, constants=constants)).save(path)
    assert main(["certify", str(path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("region 1: differs: vdla.QConv ")
    assert printed[2] == "certify g: of 1 programs, 1 differs"


def test_a_network_without_expressions_is_verified_only(network: Model, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "net.vdla"
    network.save(path)
    assert main(["certify", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "network g: 1 program verified",
        "not certified: the file does not keep what its programs must compute "
        f"(vdla compile MODEL.onnx --expressions -o {path})",
    ]


@pytest.fixture
def kept(tmp_path: Path, capsys: Capture) -> Path:
    """The certificate of SMALL with another seed."""
    path = tmp_path / "dense.json"
    assert main(["certify", *SMALL, "--seed", "3", "--json", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_certificate_is_checked_again_with_its_seed(kept: Path, capsys: Capture) -> None:
    assert main(["certify", *SMALL, "--certificate", str(kept)]) == 0
    assert capsys.readouterr().out.endswith("prime 2^61 - 1, seed 3\n")


def test_a_certificate_for_another_program_is_refused(kept: Path, capsys: Capture) -> None:
    words = ["certify", *SMALL[:5], "activation=relu", *SMALL[5:], "--certificate", str(kept)]
    assert main(words) == 2
    assert f"{kept}: certificate must be for program " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "version of the certificate must be 1, got 2"),
        ({"prime": "7"}, "prime of the certificate must be 2^61 - 1, got 7"),
        ({"seed": -1}, "seed of the certificate must be an integer from 0 to 2^63 - 1, got -1"),
        ({"seed": "3"}, "seed of the certificate must be an integer from 0 to 2^63 - 1, got '3'"),
        ({"certified": False}, "certificate must be one that holds, got one that does not"),
        ({"certificate": {}}, "got one for program None"),
        ({"certificate": [1]}, "got one for program None"),
        ({"regions": []}, "certificate must be for 1 programs, got one for 0"),
        ({"regions": 3}, "certificate must be for 1 programs, got one for 0"),
    ],
)
def test_a_changed_certificate_is_refused(kept: Path, changes: dict[str, object], text: str, capsys: Capture) -> None:
    kept.write_text(json.dumps(json.loads(kept.read_text()) | changes))
    assert main(["certify", *SMALL, "--certificate", str(kept)]) == 2
    assert text in capsys.readouterr().err


def test_a_certificate_for_another_expression_is_refused(kept: Path, capsys: Capture) -> None:
    document = json.loads(kept.read_text())
    document["certificate"]["expression"] = "0" * 16
    kept.write_text(json.dumps(document))
    assert main(["certify", *SMALL, "--certificate", str(kept)]) == 2
    assert capsys.readouterr().err.endswith("got one for expression 0000000000000000\n")


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_what_is_no_certificate_is_refused(tmp_path: Path, text: str, capsys: Capture) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert main(["certify", *SMALL, "--certificate", str(path)]) == 2
    assert f"{path}: file must be " in capsys.readouterr().err


def test_the_certificate_of_a_network_is_checked_again(network: Model, tmp_path: Path, capsys: Capture) -> None:
    path, certificate = tmp_path / "net.vdla", tmp_path / "net.json"
    network.with_expressions().save(path)
    assert main(["certify", str(path), "--seed", "3", "--json", str(certificate)]) == 0
    assert main(["certify", str(path), "--certificate", str(certificate)]) == 0
    assert capsys.readouterr().out.endswith("seed 3\n")
    assert main(["certify", str(path), "--certificate", str(certificate), "--seed", "4"]) == 2
    assert "--seed must be left out with --certificate, got 4" in capsys.readouterr().err
    document = json.loads(certificate.read_text())
    document["regions"][0]["program"] = "0" * 16
    certificate.write_text(json.dumps(document))
    assert main(["certify", str(path), "--certificate", str(certificate)]) == 2
    assert " of region 1, got one for program 0000000000000000" in capsys.readouterr().err


def test_damaged_expressions_are_refused(network: Model, tmp_path: Path, capsys: Capture) -> None:
    path, content = tmp_path / "net.vdla", network.expressions
    for damaged, text in (
        (content[:-1], "expressions must describe the regions of a network, got ValueError: an array "),
        (content.replace(b'"version": 1', b'"version": 9'), "version of its expressions must be at most 1, got 9 "),
        (content.replace(b'"vdla.QConv"', b'"vdla.QAdd" '), "vdla.QAdd "),
        (content.replace(b'"plain"', b'"plane"'), "expressions must describe the regions of a network, got KeyError"),
    ):
        Model(replace(network.artifact, expressions=damaged)).save(path)
        assert main(["certify", str(path)]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["C99"], "certify: operator must be one of batched_matmul, "),
        (["C2", "--shape", "rows=1"], "certify C2: --shape must be left out for a named layer, got rows=1"),
        (["c.vdla", "--shape", "rows=1"], "certify c.vdla: --shape must be left out for a program file, got rows=1"),
        (
            ["c.vdla", "--program", "d.vdla"],
            "certify: the operator must be a name or FILE.py:NAME with --program, got the file c.vdla",
        ),
        (["c.vdla"], "c.vdla: no such file"),
    ],
)
def test_bad_input_is_one_line(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["certify", *words]) == 2
    assert capsys.readouterr().err.startswith(f"vdla: {text}")
