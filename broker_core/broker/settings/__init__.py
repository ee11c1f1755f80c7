"""A broker's settings: parsed, checked, described; listeners and their security."""
