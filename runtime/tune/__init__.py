# SPDX-License-Identifier: Apache-2.0
"""Tuning runs: measurers, workers, logs of trials, the loop, and the best known schedules."""
