# SPDX-License-Identifier: Apache-2.0
"""The differential fuzzer of schedules."""
