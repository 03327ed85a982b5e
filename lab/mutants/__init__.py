"""Planted bugs: mutants of correct kernels, made systematically, that the referee must tell from them."""
