"""Parts of the benchmark `board`: functions that return figures, and what they need."""
