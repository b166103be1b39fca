"""Datasets and loaders: what is given to them and what their batches are used for."""
