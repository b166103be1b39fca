"""TL2: the order of training and evaluation."""
