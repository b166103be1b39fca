"""Module classes: what they keep, in which order their layers run, how large those are."""
