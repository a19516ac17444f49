# SPDX-License-Identifier: Apache-2.0
"""Studies of machines: the benefit of an extension on real layers, sweeps of configurations.

verdict = evaluate("my.py", layers_named(["C1-C12"]), Config.preset("pynq_z1"))
sweep = explore(base, layers, {"block_in": [8, 16]}, PARTS["xc7z020"], workers, log="e.jsonl")
"""
