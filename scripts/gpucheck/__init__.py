"""The program behind ``scripts/gpu-check``: nothing but Python's own library, so that it runs anywhere."""
