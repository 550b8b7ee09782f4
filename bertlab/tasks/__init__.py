"""Downstream tasks: reading their files, turning examples into batches, turning outputs into predictions, scoring predictions."""
