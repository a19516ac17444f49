# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a device: comparison with another one, down to the instruction; its self-test.

Needs the simulator and the compiler, so it runs on a workstation and drives a device that may be
remote; the checks of the self-test and programs with known results need NumPy only.
"""
