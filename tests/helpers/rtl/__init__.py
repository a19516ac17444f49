# SPDX-License-Identifier: Apache-2.0
"""The bench around RTL modules: clock, pins, memories, protocol checkers."""
