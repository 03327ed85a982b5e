"""Profilers of GPUs: the commands that run them, and their tables under their own names and ours."""
