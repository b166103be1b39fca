"""Training and evaluation: steps, gradients and graphs, modes, who owns a loop."""
