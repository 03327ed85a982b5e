"""A package, so that ``triton`` below it is never taken for Triton itself."""
