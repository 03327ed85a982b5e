"""Regions of the loop IR as Triton kernels, and the candidate file around them.

Nothing here imports triton: what is printed is text, the same on a machine with a GPU and without.
"""
