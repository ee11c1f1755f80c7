"""Ground floor: names of things, kinds of error, limits and topic settings. Imports nothing of the house."""
