# SPDX-License-Identifier: Apache-2.0
"""A model of Vivado that records what the flow asks for, and checks of what was recorded."""
