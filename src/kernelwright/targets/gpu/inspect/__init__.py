"""Builds a candidate's GPU kernels where there is no GPU, in a process of its own, and says what came out."""
