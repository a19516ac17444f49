# SPDX-License-Identifier: Apache-2.0
"""Which operators compute in blocks of channels, where images are repacked, and what that costs."""

import itertools

import numpy as np
import pytest
from helpers.graphs import operators_in_layouts, small_graph

from vdla.compiler.graph import Node, TensorType, check_graph
from vdla.compiler.graph.passes import choose_layouts
from vdla.compiler.graph.passes.layouts import blocked_forms, in_blocks
from vdla.compiler.target import Target
from vdla.runtime.network.evaluator import evaluate

AVX512 = Target.named("x86-64-avx512")
AVX2 = Target.named("x86-64-avx2")
ONE = {"kernel_shape": (1, 1)}


def weight(outputs, channels, kernel=3, seed=0):
    values = np.random.default_rng(seed).normal(0, 0.2, (outputs, channels, kernel, kernel))
    return values.astype(np.float32)


def conv(x, y, w="w", **attributes):
    return Node("Conv", (x, w), (y,), {"pads": (1, 1, 1, 1), **attributes})


def image(*extents, seed=0):
    return np.random.default_rng(seed).normal(0, 1, extents).astype(np.float32)


def check_close(got, wanted, name):
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(), err_msg=name)


def check_values(graph, made, shape):
    """Both graphs compute the same outputs, which are plain, by NumPy functions and by kernels."""
    x = {"x": image(*shape)}
    wanted = evaluate(graph, x, prefer="numpy")
    for prefer in ("numpy", "kernel"):
        got = evaluate(made, x, prefer=prefer)
        for name in graph.outputs:
            assert got[name].shape == wanted[name].shape
            check_close(got[name], wanted[name], name)


def laid_out(nodes, shape, target=AVX512, **options):
    graph = small_graph(nodes, shape=shape, **options)
    made = check_graph(choose_layouts(graph, target))
    check_values(graph, made, shape)
    return made


def test_a_chain_of_convolutions_stays_in_blocks():
    nodes = [
        conv("x", "a", "v"),
        Node("Relu", ("a",), ("b",)),
        conv("b", "c"),
        Node("Add", ("c", "b"), ("d",)),
        Node("GlobalAveragePool", ("d",), ("y",)),
    ]
    wide = dict.fromkeys("abcd", (1, 32, 14, 14))
    made = laid_out(nodes, (1, 3, 14, 14), shapes={**wide, "y": (1, 32, 1, 1)}, v=weight(32, 3), w=weight(32, 32))
    assert operators_in_layouts(made) == [
        "Conv in blocks", "Relu in blocks", "Conv in blocks", "Add in blocks", "GlobalAveragePool in blocks"
    ]  # fmt: skip
    assert made.nodes[0].inputs[0] == "x"
    assert [made.tensor(name) for name in "abcd"] == [TensorType("float32", (1, 32, 14, 14), 16)] * 4
    assert made.tensor("a").array_shape == (1, 2, 14, 14, 16)
    assert str(made.tensor("a")) == "float32[1, 32, 14, 14] NCHW16c"
    assert made.tensor("y").shape == (1, 32, 1, 1)


def test_lanes_are_those_of_the_target():
    nodes = [conv("x", "a"), conv("a", "b"), Node("GlobalAveragePool", ("b",), ("y",))]
    shapes = {"y": (1, 32, 1, 1)}
    assert laid_out(nodes, (1, 32, 14, 14), AVX2, w=weight(32, 32), shapes=shapes).tensor("a").lanes == 8
    cortex = Target.named("cortex-a9")
    assert laid_out(nodes, (1, 32, 14, 14), cortex, w=weight(32, 32), shapes=shapes).tensor("a").lanes == 4


def test_one_convolution_stays_plain():
    made = laid_out([conv("x", "y")], (1, 32, 14, 14), w=weight(32, 32))
    assert operators_in_layouts(made) == ["Conv"]


def test_inputs_and_outputs_of_the_graph_are_plain():
    nodes = [conv("x", "a"), conv("a", "b"), conv("b", "c"), conv("c", "d"), Node("MaxPool", ("d",), ("y",), ONE)]
    made = laid_out(nodes, (1, 32, 14, 14), outputs=("y", "b"), w=weight(32, 32))
    assert operators_in_layouts(made) == [
        "to blocks", "Conv in blocks", "Conv in blocks", "from blocks", "Conv in blocks",
        "Conv in blocks", "MaxPool in blocks", "from blocks",
    ]  # fmt: skip
    assert made.outputs == ("y", "b")
    assert made.tensor("b_blocked").array_shape == (1, 2, 14, 14, 16)


def test_a_value_is_repacked_once_for_all_readers():
    nodes = [
        conv("x", "a"),
        conv("a", "b"),
        Node("Softmax", ("b",), ("c",)),
        Node("Transpose", ("b",), ("d",), {"perm": (0, 1, 3, 2)}),
        Node("Add", ("c", "d"), ("e",)),
        conv("e", "f"),
        conv("e", "g", "v"),
        Node("Add", ("f", "g"), ("h",)),
        conv("h", "i"),
        Node("Add", ("i", "b"), ("j",)),
        Node("GlobalAveragePool", ("j",), ("y",)),
    ]
    shapes = {"y": (1, 32, 1, 1)}
    made = laid_out(nodes, (1, 32, 14, 14), shapes=shapes, w=weight(32, 32), v=weight(32, 32, seed=1))
    assert operators_in_layouts(made).count("Conv in blocks") == 5
    assert operators_in_layouts(made).count("from blocks") == 1
    assert operators_in_layouts(made).count("to blocks") == 2  # of x and e


def test_constants_are_repacked_at_compile_time():
    nodes = [
        conv("x", "a"),
        Node("Mul", ("a", "scale"), ("b",)),
        Node("PRelu", ("b", "slope"), ("c",)),
        Node("Add", ("c", "row"), ("d",)),
        Node("Clip", ("d", "low", "high"), ("e",)),
        conv("e", "f", "u"),
        Node("GlobalAveragePool", ("f",), ("y",)),
    ]
    constants = {
        "scale": image(20, 1, 1), "slope": image(1, 20, 7, 7), "row": image(7, 1),
        "low": np.float32(-1), "high": np.float32(1), "w": weight(20, 32), "u": weight(32, 20),
    }  # fmt: skip
    shapes = {**dict.fromkeys("abcde", (2, 20, 7, 7)), "f": (2, 32, 7, 7), "y": (2, 32, 1, 1)}
    constants = {name: np.asarray(value) for name, value in constants.items()}
    made = laid_out(nodes, (2, 32, 7, 7), shapes=shapes, **constants)
    assert operators_in_layouts(made)[1:7] == [
        f"{op} in blocks" for op in ("Conv", "Mul", "PRelu", "Add", "Clip", "Conv")
    ]
    assert made.constants["scale_blocked"].shape == (1, 2, 1, 1, 16)
    assert made.constants["slope_blocked"].shape == (1, 2, 7, 7, 16)
    assert made.constants["row_blocked"].shape == (1, 1, 7, 1, 1)
    assert made.tensor("slope_blocked") == TensorType("float32", (1, 20, 7, 7), 16)
    assert made.tensor("row_blocked") == TensorType("float32", (1, 1, 7, 1), 1)


def test_factors_of_an_image_or_of_its_channels_are_no_reason_to_repack_it():
    nodes = [
        Node("ReduceMax", ("x",), ("most",), {"keepdims": 0}),
        conv("x", "a"),
        Node("Mul", ("a", "most"), ("b",)),
        Node("GlobalAveragePool", ("b",), ("c",)),
        Node("Mul", ("b", "c"), ("d",)),
        conv("d", "e"),
        Node("GlobalAveragePool", ("e",), ("y",)),
    ]
    shapes = {"most": (), "c": (1, 20, 1, 1), "y": (1, 20, 1, 1)}
    made = laid_out(nodes, (1, 20, 9, 9), shapes=shapes, w=weight(20, 20))
    assert operators_in_layouts(made)[3:7] == [
        "Mul in blocks",
        "GlobalAveragePool in blocks",
        "to blocks",
        "Mul in blocks",
    ]
    repacked = [node.inputs[0] for node in made.nodes if node.op == "vdla.Repack"]
    assert repacked == ["x", "c"]


def of_scales(**attributes):
    return ("", "scales"), attributes, {"scales": np.float32([1, 1, 2, 1.5])}


def of_sizes(**attributes):
    return ("", "", "sizes"), attributes, {"sizes": np.array([1, 20, 14, 10])}


@pytest.mark.parametrize(
    ("inputs", "attributes", "constants"),
    [of_scales(mode="nearest"), of_scales(mode="linear"), of_sizes(mode="linear"), of_sizes(mode="cubic")],
)
def test_resized_images_stay_in_blocks(inputs, attributes, constants):
    nodes = [
        conv("x", "a"),
        Node("Resize", ("a", *inputs), ("b",), attributes),
        conv("b", "c", "v"),
        Node("GlobalAveragePool", ("c",), ("y",)),
    ]
    shapes = {"a": (1, 20, 7, 7), "b": (1, 20, 14, 10), "c": (1, 64, 14, 10), "y": (1, 64, 1, 1)}
    made = laid_out(nodes, (1, 3, 7, 7), shapes=shapes, w=weight(20, 3), v=weight(64, 20), **constants)
    assert operators_in_layouts(made)[:3] == ["Conv in blocks", "Resize in blocks", "Conv in blocks"]


@pytest.mark.parametrize("attributes", [{}, {"mode": "reflect"}, {"mode": "edge"}])
def test_padded_images_stay_in_blocks(attributes):
    nodes = [
        conv("x", "a"),
        Node("Pad", ("a", "pads", "value"), ("b",), attributes),
        conv("b", "c", "v"),
        Node("GlobalAveragePool", ("c",), ("y",)),
    ]
    shapes = {"a": (1, 20, 7, 7), "b": (1, 20, 10, 9), "c": (1, 64, 10, 9), "y": (1, 64, 1, 1)}
    constants = {"pads": np.array([0, 0, 1, 2, 0, 0, 2, 0]), "value": np.array(0.5, np.float32)}
    made = laid_out(nodes, (1, 3, 7, 7), shapes=shapes, w=weight(20, 3), v=weight(64, 20), **constants)
    assert operators_in_layouts(made)[:3] == ["Conv in blocks", "Pad in blocks", "Conv in blocks"]


def test_concatenations_of_whole_blocks_stay_in_blocks():
    def joined(channels):
        nodes = [
            conv("x", "a"),
            conv("a", "b", "v"),
            Node("Concat", ("a", "b"), ("c",), {"axis": -3}),
            conv("c", "d", "u"),
            conv("d", "e"),
            Node("GlobalAveragePool", ("e",), ("y",)),
        ]
        whole = channels + 32
        shapes = {"b": (1, channels, 14, 14), "c": (1, whole, 14, 14), "y": (1, 32, 1, 1)}
        constants = {"w": weight(32, 32), "v": weight(channels, 32), "u": weight(32, whole)}
        return operators_in_layouts(laid_out(nodes, (1, 32, 14, 14), shapes=shapes, **constants))

    assert joined(16) == [
        "to blocks", "Conv in blocks", "Conv in blocks", "Concat in blocks", "Conv in blocks", "Conv in blocks",
        "GlobalAveragePool in blocks",
    ]  # fmt: skip
    assert joined(17) == [
        "Conv", "Conv", "Concat", "to blocks", "Conv in blocks", "Conv in blocks",
        "GlobalAveragePool in blocks",
    ]  # fmt: skip


def test_a_depthwise_convolution_stays_in_blocks_between_others():
    nodes = [
        conv("x", "a", pads=(0, 0, 0, 0)),
        conv("a", "b", "v", group=24, strides=(2, 2)),
        conv("b", "c", "u", pads=(0, 0, 0, 0)),
        Node("GlobalAveragePool", ("c",), ("y",)),
    ]
    shapes = {"a": (1, 24, 14, 14), "b": (1, 24, 7, 7), "c": (1, 40, 7, 7), "y": (1, 40, 1, 1)}
    constants = {"w": weight(24, 16, 1), "v": weight(24, 1), "u": weight(40, 24, 1)}
    made = laid_out(nodes, (1, 16, 14, 14), shapes=shapes, **constants)
    assert operators_in_layouts(made) == [*["Conv in blocks"] * 3, "GlobalAveragePool in blocks"]


def test_a_direct_convolution_reads_blocks_where_its_result_is_plain():
    nodes = [conv("x", "a"), conv("a", "b"), conv("b", "y", "v", strides=(2, 2))]
    made = laid_out(nodes, (1, 32, 14, 14), shapes={"y": (1, 128, 7, 7)}, w=weight(32, 32), v=weight(128, 32))
    assert operators_in_layouts(made) == ["to blocks", *["Conv in blocks"] * 3]
    assert made.nodes[-1].inputs[0] == "b" and not made.tensor("y").lanes


def test_what_has_no_blocked_form_stays_plain():
    pooled = Node("MaxPool", ("x",), ("y", "where"), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)})
    assert operators_in_layouts(laid_out([pooled], (1, 32, 14, 14), shapes={}, outputs=("y",))) == ["MaxPool"]
    several = [conv("x", "a", group=2), conv("a", "y", group=2)]
    assert operators_in_layouts(laid_out(several, (1, 24, 9, 9), w=weight(24, 12))) == ["Conv", "Conv"]


# --- cost -----------------------------------------------------------------------------------------


def cost(graph, forms, chosen):
    """The gains that are lost and the bytes of repacks, counted from the layouts of all values."""
    blocked = {node.outputs[0] for node in graph.nodes if id(node) in chosen and forms[id(node)].writes_blocks}
    plain_readers, blocked_readers = set(graph.outputs), set()
    for node in graph.nodes:
        form = forms.get(id(node))
        for index, name in enumerate(node.inputs):
            if form is not None and index in form.reads_either:
                continue
            is_blocked = form is not None and id(node) in chosen and index in form.reads
            (blocked_readers if is_blocked else plain_readers).add(name)
    repacked = (blocked & plain_readers) | ((blocked_readers - blocked) - graph.constants.keys())
    lost = sum(form.gain_bytes for at, form in forms.items() if at not in chosen)
    return lost + sum(2 * 4 * int(np.prod(graph.tensor(name).extents)) for name in repacked)


def random_graph(seed):
    """A chain of up to 9 nodes with branches, on images of 32 channels."""
    rng = np.random.default_rng(seed)
    values, nodes = ["x"], []
    for at in range(int(rng.integers(3, 9))):
        x, other = (values[-1 - min(int(rng.integers(3)), len(values) - 1)] for _ in range(2))
        made = (
            conv(x, f"v{at}"), conv(x, f"v{at}", "p", pads=(0, 0, 0, 0)), Node("Add", (x, other), (f"v{at}",)),
            Node("Relu", (x,), (f"v{at}",)), Node("Softmax", (x,), (f"v{at}",)),
            Node("MaxPool", (x,), (f"v{at}",), ONE), conv(x, f"v{at}", "d", group=32),
        )  # fmt: skip
        nodes.append(made[rng.integers(len(made))])
        values.append(f"v{at}")
    outputs = {values[-1], values[int(rng.integers(1, len(values)))]}
    constants = {"w": weight(32, 32), "p": weight(32, 32, 1), "d": weight(32, 1)}
    read = {name for node in nodes for name in node.inputs}
    used = {name: value for name, value in constants.items() if name in read}
    return small_graph(nodes, shape=(1, 32, 6, 6), outputs=sorted(outputs), **used)


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_costs_less(seed):
    graph = random_graph(seed)
    forms = blocked_forms(graph, AVX512)
    choices = itertools.chain.from_iterable(itertools.combinations(forms, n) for n in range(len(forms) + 1))
    least = min(cost(graph, forms, set(choice)) for choice in choices)
    assert cost(graph, forms, in_blocks(graph, forms)) == least


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_values(seed):
    graph = random_graph(seed)
    made = check_graph(choose_layouts(graph, AVX512))
    x = {"x": image(1, 32, 6, 6, seed=seed)}
    wanted, got = (evaluate(each, x, prefer="numpy") for each in (graph, made))
    for name in graph.outputs:
        check_close(got[name], wanted[name], name)
