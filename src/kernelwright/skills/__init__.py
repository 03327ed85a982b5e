"""Curated long-term memory: one Markdown file per skill, its loader and linter, and the gate."""
