"""Index arithmetic: affine forms, bounds, simplification, evaluation of index expressions."""
