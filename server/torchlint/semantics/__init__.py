"""What the code means to PyTorch: names, kinds, flow, typestate. Rules ask here and nowhere else."""
