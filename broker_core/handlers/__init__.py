"""Request handlers: one file per API key, each with a card of what it serves and what it deliberately leaves out."""
