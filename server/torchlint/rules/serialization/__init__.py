"""TL9: saving, loading, reproducibility."""
