"""From a model to an artifact: passes, quantisation, devices, kernels, programs; evaluation node by
node.
"""
