"""Data: from raw text to the batches that models are fed."""
