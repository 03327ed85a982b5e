"""Learned memory: what this run tried, and what all runs measured."""
