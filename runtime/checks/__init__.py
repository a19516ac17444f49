# SPDX-License-Identifier: Apache-2.0
"""Checks of what an extension declares: the SystemVerilog of a step and the instructions of an
intrinsic compute what their tensor expressions say.
"""
