# SPDX-License-Identifier: Apache-2.0
"""Studies of machines: the benefit of an extension on real layers, sweeps of configurations.

verdict = evaluate("my.py", ["C1-C12"], "pynq_z1")
sweep = explore(layers, "pynq_z1", {"block_in": [8, 16]}, log="e.jsonl")
"""
