"""Reads what compilers of GPU code say of a kernel: text in, facts out, nothing executed."""
