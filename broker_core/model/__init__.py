"""Ground floor: names of things, kinds of trouble, limits and topic settings. Imports nothing of the house."""
