"""TL7: mixed precision, compilation, export."""
