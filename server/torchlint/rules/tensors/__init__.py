"""TL4: tensors."""
