"""TL3: losses, outputs and numerics."""
