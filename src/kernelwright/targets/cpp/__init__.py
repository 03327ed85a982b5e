"""Printing scheduled regions as C++ with OpenMP."""
