"""TL1: modules, layers and parameters."""
