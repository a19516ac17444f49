# SPDX-License-Identifier: Apache-2.0
"""From a model to an artifact: passes, quantisation, devices, kernels, programs; evaluation node by
node.
"""
