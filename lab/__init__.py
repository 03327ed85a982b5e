"""The laboratory: planted bugs, kills, noise, honest kernels, servers that misbehave. Not installed."""
