"""How a kernel is written without a model: rewrites, loop IR, schedules, printers, runtime."""
