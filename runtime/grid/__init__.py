"""Devices with a grid of threads, by OpenCL or by NVIDIA's driver: arrays in their memory, streams,
events, kernels.
"""
