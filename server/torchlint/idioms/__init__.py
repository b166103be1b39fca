"""What PyTorch authors write, recognised on top of semantics: losses, loaders, modes, training steps, containers.

Each file answers one family of questions that more than one rule asks, or that would hide a rule's own sentence.
"""
