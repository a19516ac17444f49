# SPDX-License-Identifier: Apache-2.0
"""From tensor expressions to instruction streams. Imports only `vdla.hardware`."""
