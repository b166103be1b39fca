"""Tensors and other values: where they come from, how large they are, what is computed with them."""
