# SPDX-License-Identifier: Apache-2.0
"""The table of units and token queues: names and numbers that RTL and registers depend on."""

from vdla.hardware.isa import COUNTERS, QUEUES, SIDES, UNITS, Unit, popped_queue


def test_token_queues_have_their_names_and_fields():
    assert [(queue.name, queue.push, queue.pop) for queue in QUEUES] == [
        ("load_to_compute", "push_next", "pop_prev"),
        ("compute_to_load", "push_prev", "pop_next"),
        ("compute_to_store", "push_next", "pop_prev"),
        ("store_to_compute", "push_prev", "pop_next"),
    ]


def test_each_side_of_a_unit_pops_its_queue():
    assert [[popped_queue(unit, side) for side in SIDES] for unit in Unit] == [[-1, 1], [0, 3], [2, -1]]


def test_counters_keep_their_order():
    assert UNITS == ("fetch", "load", "compute", "store")
    assert COUNTERS == (
        "busy",
        "memory_latency",
        "memory_bandwidth",
        "wait_load_to_compute",
        "wait_compute_to_load",
        "wait_compute_to_store",
        "wait_store_to_compute",
        "commands",
        "idle",
    )
