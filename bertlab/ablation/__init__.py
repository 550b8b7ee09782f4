"""Ablations: grids of runs and the statistics of the tables made of them. Importing this package imports no torch."""
