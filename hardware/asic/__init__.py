# SPDX-License-Identifier: Apache-2.0
"""A configuration as an ASIC has it: logic gates or the cells of a library, by unit."""
