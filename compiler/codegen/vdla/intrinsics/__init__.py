"""The accelerator's intrinsics, declared through the API that users have: DMA, GEMM, vector unit,
requantisation.
"""
