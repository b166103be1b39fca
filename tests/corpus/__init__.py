"""Real code: pinned packages from the registry, and what the rules say about them, reviewed by hand."""
