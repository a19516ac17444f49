# SPDX-License-Identifier: Apache-2.0
"""The tuner: searches, runs that are killed, workers, kernels of networks on CPUs."""
