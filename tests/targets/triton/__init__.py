"""Tests of the Triton printer; they run in Triton's interpreter, in a process of its own."""
