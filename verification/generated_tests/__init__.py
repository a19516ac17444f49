"""Tests that follow from the declaration of an extension: programs, expectations, disagreements."""
