"""Facts and probes: the compiler, the processor, its measured peaks and counters."""
