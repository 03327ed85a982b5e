"""A small web page over a store: runs in progress, their reports, kernels, calls and machines; read-only."""
