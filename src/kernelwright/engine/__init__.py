"""The loop: budgets, events, resume. Knows roles and policies as protocols only."""
