# SPDX-License-Identifier: Apache-2.0
"""The machine: configuration, instruction set, programs, timing. Imports only `vdla.support`."""
