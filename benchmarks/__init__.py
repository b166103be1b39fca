"""torchlint beside its peers, on the same pinned files, in one run; ``python -m benchmarks`` (or ``make bench``)."""
