"""The text of candidates in CUDA C++."""
