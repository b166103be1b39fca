"""What stands around code: several releases of torch, expected errors, comments, files."""
