"""The roles of the design and the teams that fill them."""
