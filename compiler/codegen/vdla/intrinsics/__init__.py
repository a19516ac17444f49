"""The accelerator's intrinsics, declared through the public API."""
