"""Correct kernels written by hand: data, see testing/honest.py."""
