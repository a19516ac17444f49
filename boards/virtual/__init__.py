# SPDX-License-Identifier: Apache-2.0
"""The virtual board: the services of PYNQ.remote, with the RTL or the simulator as the fabric."""
