"""Roles played by a language model: client, prompts, context windows, and what may go wrong between them."""
