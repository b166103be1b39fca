"""TL5: datasets and loaders."""
