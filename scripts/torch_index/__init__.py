"""What scripts/index_torch.py is made of: each module runs torch and returns one data file's content."""
