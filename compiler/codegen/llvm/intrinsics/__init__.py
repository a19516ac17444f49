# SPDX-License-Identifier: Apache-2.0
"""The tensor intrinsics of CPUs: dot products, sliding windows, bit-serial products."""
