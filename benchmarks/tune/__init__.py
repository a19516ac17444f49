"""The tuner: searches, runs that are killed, workers, kernels of networks on CPUs."""
