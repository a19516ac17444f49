"""Naive models, program builders and test benches that tests share."""
