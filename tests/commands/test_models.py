# SPDX-License-Identifier: Apache-2.0
"""`vdla compile MODEL.onnx`, `run`, `explain`, `profile`: a network, from its file to figures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers.open_network import open_network
from helpers.small_programs import small_gemm
from PIL import Image

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.commands.console import output
from vdla.commands.placement_tables import milliseconds
from vdla.hardware.config import Config
from vdla.runtime.executor.model import Model

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str) -> str:
    """What a command that succeeds prints."""
    capsys.readouterr()
    assert main(words) == OK
    return capsys.readouterr().out


def refused(capsys: Capture, *words: str) -> str:
    """The one line that a command says which refuses its arguments."""
    capsys.readouterr()
    assert main(words) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.removeprefix("vdla: ").removesuffix("\n")


@pytest.fixture
def model(digits: Path) -> str:
    return str(digits / "digits.vdla")


# --- compile --------------------------------------------------------------------------------------


def test_compile_says_where_everything_runs(digits: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ("compile", str(digits / "digits.onnx"), "--calibration", str(digits / "calibration.npy"))
    text = said(capsys, *words, "--place", "pool=cpu", "-o", str(tmp_path / "m.vdla"), "--print-after", "partition")
    assert re.search(r"^vdla \(pynq_z1\) +7 +599,360 +100\.0 % +[\d,]+ ", text, re.MULTILINE)
    assert "digits runs 7 of 10 operators and 100.0 % of the MACs on pynq_z1, in 2 programs." in text
    assert text.startswith("--- partition: ")
    assert "vdla.Accelerated" in text


def test_a_model_wholly_on_the_cpu_says_why(digits: Path, tmp_path: Path, capsys: Capture) -> None:
    text = said(capsys, "compile", str(digits / "digits.onnx"), "-o", str(tmp_path / "m.vdla"))
    assert "digits runs wholly on the CPU" in text
    reason = "on the accelerator it must be quantised"
    change = "quantisation, as with --calibration FILE"
    assert re.search(rf"^  \d+ operators: {reason}; to change it: {change}$", text, re.MULTILINE)


def test_the_cause_of_a_model_in_numpy_is_said_once_with_the_option(tmp_path: Path, capsys: Capture) -> None:
    source, made = tmp_path / "open.onnx", str(tmp_path / "m.vdla")
    onnx.save(open_network([None, 2, "?", "?"]), source)
    text = said(capsys, "compile", str(source), "--target", "host", "-o", made)
    options = "--extent x.0=1 x.2=1 x.3=1"
    causes = [line for line in text.splitlines() if line.startswith("  ")]
    assert causes == [f"  3 operators: extents must be known; to change it: numbers for x.0, x.2, x.3, as in {options}"]
    assert options in said(capsys, "explain", made)
    numbers = options.replace("=1", "=6").split()
    assert "--extent" not in said(capsys, "compile", str(source), "--target", "host", "-o", made, *numbers)
    twice = refused(capsys, "compile", str(source), "--extent", "x.0=1", "x.0=2")
    assert twice == "compile: --extent: x.0 must be given once, got it twice"


def test_explain_says_which_option_moves_an_operator(model: str, capsys: Capture) -> None:
    lines = said(capsys, "explain", model).splitlines()
    moved = [line.partition(" on vdla: ")[2] for line in lines if " on vdla: " in line]
    times = r"([\d.]+) ms on the accelerator, ([\d.]+) ms on the board's cortex-a9"
    region = (
        r"less time in all: [\d.]+ ms on the accelerator and [\d.]+ ms for packing, "
        r"[\d.]+ ms on the board's cortex-a9, with the 8 operators of its region"
    )
    ends = "; to change it: --place NODE=cpu"
    own = [re.fullmatch(times + ends, line) for line in moved]
    assert any(own) and all(float(one[1]) < float(one[2]) for one in own if one)
    assert all(one or re.fullmatch(region + ends, line) for one, line in zip(own, moved, strict=True))


@pytest.mark.parametrize(("words", "message"), [
    ("--shape rows=4", "digits: shapes must be those of inputs, one of image, got rows"),
    ("--preset tiny --target host", "compile: --preset must be left out with --target, got tiny"),
    ("--threads 2", "compile: --tuned must be given with --threads 2 of a model, got none"),
    ("--schedule s.txt", "compile: --schedule must be left out for a model, got s.txt"),
    ("--method mse", "compile: --calibration must be given with --method mse, got none"),
    ("--float conv1", "compile: --calibration must be given with --float conv1, got none"),
    ("--extent batch", "--extent: setting must look like KEY=VALUE, got 'batch'"),
    ("--extent batch=x", "compile: --extent: batch must be an integer, got 'x'"),
    ("--extent batch=-1", "compile: --extent: batch must be at least 0, got -1"),
    ("--place pool", "--place: setting must look like KEY=VALUE, got 'pool'"),
    ("--place pool=cpu pool=vdla", "compile: --place: pool must be given once, got it twice"),
    ("-o absent/m.vdla", "compile: folder of --output must exist, got absent"),
])  # fmt: skip
def test_wrong_options_of_compile(words: str, message: str, digits: Path, capsys: Capture) -> None:
    assert refused(capsys, "compile", str(digits / "digits.onnx"), *words.split()) == message


def test_options_of_models_are_refused_for_operators(capsys: Capture) -> None:
    said_ = refused(capsys, "compile", "C6", "--cpu", "board")
    assert said_ == "compile: --cpu must be left out for an operator, got board"


def test_the_machine_of_an_operator_is_a_target_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "C12 for tiny" in said(capsys, "compile", "C12", "--target", "tiny")
    message = refused(capsys, "compile", "C12", "--target", "host")
    assert message.startswith("compile: --target of an operator must be one of pynq_z1, ")
    assert message.endswith(", got host; vdla native compiles operators for CPUs")


def test_a_float_model_is_never_silently_on_the_cpu(digits: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ("compile", str(digits / "digits.onnx"), "-o", str(tmp_path / "m.vdla"))
    last = said(capsys, *words, "--preset", "tiny").splitlines()[-1]
    assert last == (
        "Nothing is quantised, so nothing runs on tiny: --calibration DATA.npy, with inputs as the model takes them, "
        "quantises it. --target host compiles for the CPU alone."
    )
    assert "Nothing is quantised" not in said(capsys, *words, "--target", "host")


@pytest.mark.parametrize(("name", "what"), [("m.h5", "a Keras model"), ("m.pth", "weights of PyTorch")])
def test_models_of_other_formats_are_named(name: str, what: str, capsys: Capture) -> None:
    assert f"must be an .onnx, a .tflite or a .pt2 file, got {what}" in refused(capsys, "compile", name)


def test_an_unknown_pass_is_refused(digits: Path, capsys: Capture) -> None:
    message = refused(capsys, "compile", str(digits / "digits.onnx"), "--print-after", "fusee")
    assert message.startswith("compile: --print-after must be one of settle_empties, ")
    assert message.endswith(", all, got fusee (did you mean fuse?)")


# --- run ------------------------------------------------------------------------------------------


def test_three_images_are_three_runs(model: str, digits: Path, tmp_path: Path, capsys: Capture) -> None:
    text = said(capsys, "run", model, "--input", str(digits / "x.npy"), "--output", str(tmp_path / "out"))
    assert "digits, 3 runs" in text
    together = np.load(tmp_path / "out" / "logits.npy")
    np.savez(tmp_path / "one.npz", image=np.load(digits / "x.npy")[1:2])
    said(capsys, "run", model, "--input", str(tmp_path / "one.npz"), "--output", str(tmp_path / "one"))
    alone = np.load(tmp_path / "one" / "logits.npy")
    assert together.shape == (3, 10)
    assert np.array_equal(together[1:2], alone)


def test_an_image_is_read_as_its_pixels(model: str, digits: Path, tmp_path: Path, capsys: Capture) -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    array = (pixels.astype(np.float32) * np.float32(1 / 255) - np.float32(0.5)) / np.float32(0.25)
    np.save(tmp_path / "x.npy", array.reshape(1, 1, 8, 8))
    image = ("--image", str(tmp_path / "digit.png"), "--mean", "0.5", "--std", "0.25")
    results = [
        json.loads(said(capsys, "run", model, *words, "--json"))["outputs"]["logits"]["sha256"]
        for words in (image, ("--input", f"image={tmp_path / 'x.npy'}"))
    ]
    assert results[0] == results[1]


def test_a_network_waits_for_slow_memory(model: str, digits: Path, capsys: Capture) -> None:
    cycles = [
        json.loads(said(capsys, "run", model, "--random-inputs", "0", "--json", *words))["cycles"]
        for words in ([], ["--dram", "read_latency=200"])
    ]
    assert cycles[1] > cycles[0]


def test_a_network_that_takes_too_long_is_stopped(model: str, capsys: Capture) -> None:
    message = refused(capsys, "run", model, "--random-inputs", "0", "--timeout", "500")
    assert message.startswith("timing: the program has not ended after cycle 500; fetch: ")


@pytest.mark.parametrize(("words", "message"), [
    ("", "run: model digits: every input must have an array, got none for image (float32 [1, 1, 8, 8]); "
     "give --input or --random-inputs SEED"),
    ("--timing-only", "run: --timing-only must be left out for a network, got True"),
    ("--trace t.json", "run: --trace must be left out for a network, got t.json; vdla profile --trace writes one"),
    ("--random-inputs 0 --mean 1", "run: model digits: --image must be given with --mean, got none"),
    ("--input {x} {x}", "run: model digits: image must be given once, got it twice"),
    ("--input imag={x}", "run: model digits: input must be one of image, got imag (did you mean image?)"),
    ("--input {wide}", "run: model digits: image must be float32 [1, 1, 8, 8], or several of them in the first "
     "dimension, got float32 [1, 1, 8, 9]; vdla compile --shape image=1x1x8x9 makes a plan for it"),
    ("--input {ints}", "run: model digits: image must be float32 [1, 1, 8, 8], or several of them in the first "
     "dimension, got int8 [1, 1, 8, 8] (image.astype(\"float32\") converts it)"),
    ("--image {text}", "{text}: file must be an image, got cannot identify image file {text!r}"),
    ("--image {png} --std 0", "run: model digits: --std must differ from 0, got 0"),
    ("--image {png} --mean 1 2", "run: model digits: --mean must have 1 or 1 numbers, got 2"),
])  # fmt: skip
def test_wrong_inputs(words: str, message: str, model: str, digits: Path, tmp_path: Path, capsys: Capture) -> None:
    names = {name: str(tmp_path / f"{name}.npy") for name in ("wide", "ints")}
    np.save(names["wide"], np.zeros((1, 1, 8, 9), np.float32))
    np.save(names["ints"], np.zeros((1, 1, 8, 8), np.int8))
    names |= {"x": str(digits / "x.npy"), "png": str(tmp_path / "x.png"), "text": str(tmp_path / "x.txt")}
    Image.new("L", (8, 8)).save(names["png"])
    Path(names["text"]).write_text("no image")
    said_ = refused(capsys, "run", model, *words.format(**names).split())
    assert said_.replace("PosixPath(", "").replace("')", "'") == message.format(**names)


def test_images_need_pillow(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    message = refused(capsys, "run", model, "--image", str(tmp_path / "x.png"))
    assert message == '--image: Pillow must be installed, got none (pip install "vdla[images]")'


def test_options_of_images_are_refused_for_programs(tmp_path: Path, capsys: Capture) -> None:
    small_gemm(Config.preset("tiny"))[0].save(tmp_path / "c.vdla")
    message = refused(capsys, "run", str(tmp_path / "c.vdla"), "--image", "cat.png")
    assert message == "run: --image must be left out for a program, got cat.png"


# --- explain --------------------------------------------------------------------------------------


def test_explain_gives_a_reason_for_every_operator(model: str, capsys: Capture) -> None:
    document = json.loads(said(capsys, "explain", model, "--json"))
    of_model = [each for each in document["operators"] if each["device"] != "handover"]
    assert all(each["reason"] for each in of_model)
    assert document["totals"]["vdla"] == {"operators": 8, "macs": 599360}
    cycles = [each["cycles"] for each in of_model if each["device"] == "vdla"]
    assert all(count > 0 for count in cycles)
    times = document["times"]
    total = times["accelerator"] + times["cpu"] + times["handover"]
    shown = [milliseconds(times[name]) for name in ("accelerator", "cpu", "handover")]
    assert document["summary"].endswith(
        f" A run takes an estimated {milliseconds(total)}: {shown[0]} on pynq_z1, {shown[1]} on the CPU, "
        f"{shown[2]} in {times['handovers']} handovers."
    )
    text = said(capsys, "explain", model)
    assert document["summary"] in text
    rule = "on the accelerator it must compute, not only convert between floats and integers"
    assert f"image_quantise, logits_dequantise on cpu: {rule}" in text
    source = "the board's cortex-a9 (data sheet of a core at 650 MHz, 40 % of its peak)"
    assert f"Times of the CPU are estimates for {source}; no board was measured, so their error is unknown." in text


def test_tables_fit_a_terminal_and_are_whole_in_a_pipe(
    model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    piped = said(capsys, "explain", model).split("\n\n")[0]
    assert "…" not in piped
    assert max(map(len, piped.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    output.cache_clear()
    table = said(capsys, "explain", model).split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_explain_refuses_a_program(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.vdla").write_bytes(b"VDLAPROG")
    message = refused(capsys, "explain", str(tmp_path / "x.vdla"))
    assert message.endswith(
        f"got a program (vdla run {tmp_path / 'x.vdla'} and vdla.run(program, inputs) run programs)"
    )


# --- profile --------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Collects tags and references of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for key, value in attrs if key in ("src", "href")]


def test_profile_adds_up(model: str, tmp_path: Path, capsys: Capture) -> None:
    page, trace = tmp_path / "p.html", tmp_path / "t.json"
    words = ("profile", model, "--runs", "1", "--html", str(page), "--trace", str(trace))
    document = json.loads(said(capsys, *words, "--json"))
    assert sum(each["cycles"] or 0 for each in document["operators"]) == document["cycles"]
    assert sum(each["share"] for each in document["operators"]) == pytest.approx(1)
    assert document["accelerator_seconds"] == pytest.approx(document["cycles"] / 100e6)
    assert document["frames_per_second"] == pytest.approx(1 / document["seconds"])
    _check_page(page.read_text())
    _check_trace(json.loads(trace.read_text())["traceEvents"], document)


def _check_page(text: str) -> None:
    parsed = _Page()
    parsed.feed(text)
    assert parsed.references == []
    assert "script" not in parsed.tags
    assert parsed.tags.count("svg") >= 3
    assert "frames per second" in text


def _check_trace(events: list[dict[str, object]], document: dict[str, object]) -> None:
    """Steps follow each other on both processes; the instructions lie within their program."""
    steps = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) in ((2, 0), (1, 99))]
    ends = [e["ts"] + e["dur"] for e in steps]
    assert [e["ts"] for e in steps[1:]] == pytest.approx(ends[:-1])
    program = next(e for e in steps if e["pid"] == 1)
    inside = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and e["tid"] != 99]
    assert program["dur"] == pytest.approx(document["cycles"] / 100)
    assert min(e["ts"] for e in inside) >= program["ts"]
    assert max(e["ts"] + e["dur"] for e in inside) <= program["ts"] + program["dur"] + 1e-6


def test_profile_prints_cycles_and_frames(model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output.cache_clear()
    text = said(capsys, "profile", model, "--runs", "1")
    assert re.search(r"^pynq_z1: [\d,]+ cycles, 0\.\d+ ms at 100 MHz, utilisation \d+\.\d %$", text, re.MULTILINE)
    assert re.search(r"^CPU steps: .* on this machine \(\S+\), not on the board$", text, re.MULTILINE)
    assert re.search(r"^[\d,.]+ frames per second, ", text, re.MULTILINE)
    assert max(map(len, text.split("\n\n")[0].splitlines())) <= 80


def test_profile_estimates_energy_and_says_so(model: str, capsys: Capture) -> None:
    text = said(capsys, "profile", model, "--runs", "1", "--energy", "45nm")
    assert "energy by 45nm, estimated" in text
    assert re.search(r"^the accelerator, a run: [\d.,]+ [num]J estimated \([\d.,]+ to [\d.,]+\)$", text, re.MULTILINE)
    assert "not in these figures: clock trees, registers, control and wires" in text
    energy = json.loads(said(capsys, "profile", model, "--runs", "1", "--energy", "45nm", "--json"))["energy"]
    assert energy["estimated_pj"] == pytest.approx(sum(each["estimated_pj"] for each in energy["operators"]))


def test_profile_takes_its_inputs_in_turn(model: str, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = Model.run
    monkeypatch.setattr(Model, "run", lambda self, inputs: seen.append(inputs["image"]) or run(self, inputs))
    assert main(["profile", model, "--input", str(digits / "x.npy"), "--runs", "4"]) == OK
    images = np.load(digits / "x.npy")
    assert [int(np.flatnonzero((images == each).all(axis=(1, 2, 3)))[0]) for each in seen] == [0, 1, 2, 0, 1]


def test_profile_refuses_a_missing_folder(model: str, capsys: Capture) -> None:
    assert refused(capsys, "profile", model, "--html", "no/p.html") == "profile: folder of --html must exist, got no"


def test_profile_writes_what_accelergy_reads(model: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "net.yaml"
    text = said(capsys, "profile", model, "--runs", "1", "--energy", "45nm", "--accelergy", str(path))
    assert text.splitlines()[-1] == f"wrote {path}"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "estimated" in lines[0] and "ISSCC 2014" in lines[1]
    assert [line for line in lines if not line.startswith((" ", "#"))] == [
        "action_counts:",
        "ERT:",
        "energy_estimation:",
    ]
    message = refused(capsys, "profile", model, "--accelergy", str(path))
    assert message == f"profile: --accelergy must be left out without --energy, got {path}"
