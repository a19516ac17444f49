# SPDX-License-Identifier: Apache-2.0
"""Devices with a grid of threads, by OpenCL or by NVIDIA's driver: arrays in their memory, streams,
events, kernels.
"""
