# SPDX-License-Identifier: Apache-2.0
"""`vdla generate`: text as it comes, JSON, what a token takes on a machine."""

import json

import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape

SHAPE = LlamaShape(words=1024, width=16, layers=1, heads=2, key_heads=1, hidden=32, positions=16)
COMMON = ["--prompt", "Return the", "--length", "3", "--chunk", "1", "--cache", "16"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The decoder's name and tokens, its size that of a test."""
    monkeypatch.setattr("vdla.networks.decoder.DOCSTRINGS", SHAPE)
    monkeypatch.setattr("vdla.networks.decoder.trained_weights", lambda: seeded_weights(SHAPE))


def test_text_on_the_cpu_and_in_json(capsys):
    assert main(["generate", "docstrings", *COMMON]) == OK
    printed = capsys.readouterr()
    assert printed.out.startswith("Return the")
    assert "tokens in" in printed.err
    assert main(["generate", "docstrings", *COMMON, "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    assert f"Return the{document['text']}\n" == printed.out
    assert (len(document["tokens"]), document["cycles_a_token"], document["bound_share"]) == (3, None, None)


def test_a_machine_shows_its_cycles(capsys, tmp_path):
    (tmp_path / "text.txt").write_text("Return the value of the argument, or raise an error. " * 8)
    words = ["--target", "tiny", "--calibration", str(tmp_path / "text.txt")]
    assert main(["generate", "docstrings", *COMMON, *words]) == OK
    rows = [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert rows[-6:] == [
        "cycles, in the prompt",
        "tokens of the prompt a second",
        "cycles",
        "tokens a second at its clock",
        "bytes of weights",
        "share of what its port can move",
    ]


def test_a_prompt_alone_has_its_cycles(capsys, tmp_path):
    (tmp_path / "text.txt").write_text("Return the value of the argument, or raise an error. " * 8)
    words = ["--target", "tiny", "--calibration", str(tmp_path / "text.txt"), "--length", "1"]
    assert main(["generate", "docstrings", *COMMON, *words]) == OK
    rows = [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert rows[-2:] == ["cycles, in the prompt", "tokens of the prompt a second"]


def test_a_picture_has_the_programs_of_a_token(capsys, tmp_path):
    (tmp_path / "text.txt").write_text("Return the value of the argument, or raise an error. " * 8)
    words = ["--target", "tiny", "--calibration", str(tmp_path / "text.txt"), "--picture", str(tmp_path / "token.svg")]
    assert main(["generate", "docstrings", *COMMON, *words]) == OK
    cycles = next(line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("cycles"))
    drawn = (tmp_path / "token.svg").read_text()
    assert f"on tiny: {cycles} cycles in " in drawn
    assert all(f">{name}<" in drawn for name in ("program", "weights", "products", "results"))


def test_a_picture_of_the_cpu_or_of_no_further_token_is_refused(capsys, tmp_path):
    picture = ["--picture", str(tmp_path / "token.svg")]
    assert main(["generate", "docstrings", *COMMON, *picture]) == BAD_INPUT
    assert "generate: --picture must be of a machine's programs, got the CPU\n" in capsys.readouterr().err
    (tmp_path / "text.txt").write_text("Return the value of the argument, or raise an error. " * 8)
    words = [*COMMON, *picture, "--length", "1", "--target", "tiny", "--calibration", str(tmp_path / "text.txt")]
    assert main(["generate", "docstrings", *words]) == BAD_INPUT
    rule = "generate: --picture must be of a token behind the first, got a text of one token\n"
    assert rule in capsys.readouterr().err


def test_weights_of_four_bits(capsys, monkeypatch, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Return the value of the argument, or raise an error. " * 8)
    words = ["generate", "docstrings", *COMMON, "--weights", "int4", "--calibration", str(text), "--json"]
    assert main(words) == OK
    on_cpu = json.loads(capsys.readouterr().out)
    assert main([*words, "--target", "pynq_z1"]) == OK
    on_machine = json.loads(capsys.readouterr().out)
    assert on_machine["tokens"] == on_cpu["tokens"]
    assert on_machine["cycles_a_token"] > 0
    assert main([*words, "--target", "zcu104"]) == BAD_INPUT
    rule = "generate: target must be a machine for weights of int4, got zcu104"
    reason = "block_in must divide 16, the half of a group, got 32"
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: {rule} ({reason})"


def test_a_compiled_decoder_is_written_and_continues(capsys, tmp_path):
    path = tmp_path / "small.vdla"
    words = ["generate", "docstrings", *COMMON[2:], "--target", "pynq_z1", "--weights", "int4", "--output", str(path)]
    assert main(words) == OK
    assert capsys.readouterr().out == f"{path}: docstrings with its tokenizer\n"
    short = ["--prompt", "Return the", "--length", "3", "--cache-type", "int8", "--json"]
    assert main(["generate", str(path), *short]) == OK
    read = json.loads(capsys.readouterr().out)
    assert main([*words, *short]) == OK
    assert read["tokens"] == json.loads(capsys.readouterr().out.partition("\n")[2])["tokens"]
    assert main(["generate", str(path), *short, "--weights", "int8"]) == BAD_INPUT
    rule = f"generate: --weights must be left out for {path}, which is compiled, got int8"
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: {rule}"


def test_a_quantised_model_has_its_weights(capsys, tmp_path):
    from vdla.networks.decoder import docstrings, tokens_path
    from vdla.runtime.generate.quantise_decoder import quantise_decoder

    path = tmp_path / "int4.onnx"
    quantise_decoder(docstrings(), [1, 2, 3, 4], weights="int4").save(path)
    with tokens_path() as tokens:
        words = ["generate", str(path), "--tokens", str(tokens), *COMMON, "--weights", "int8"]
        assert main(words) == BAD_INPUT
    rule = f"generate: --weights must be left out for {path}, whose weights are quantised, got int8"
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: {rule}"


def test_a_float_model_needs_a_text_for_a_machine(capsys, tmp_path):
    path = tmp_path / "small.onnx"
    path.write_bytes(decoder_model("small", SHAPE, seeded_weights(SHAPE)).SerializeToString())
    from vdla.networks.decoder import tokens_path

    with tokens_path() as tokens:
        words = ["generate", str(path), "--tokens", str(tokens), *COMMON, "--target", "tiny"]
        assert main(words) == BAD_INPUT
    rule = "generate: --calibration must name a text for a float model on tiny, got none"
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: {rule}"


def test_the_decoder_is_written_with_its_tokens(capsys, tmp_path):
    from vdla.networks.decoder import tokens_path

    assert main(["networks", "docstrings", "-o", str(tmp_path / "a.onnx")]) == OK
    assert capsys.readouterr().out.splitlines()[1] == f"{tmp_path}/a_tokens.json: its tokens"
    with tokens_path() as path:
        assert (tmp_path / "a_tokens.json").read_text() == path.read_text()
