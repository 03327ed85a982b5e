"""Search policies: pure and seeded; they see the run through a read-only view."""
