"""The counter: one file per API key, each with a card that says what it serves and what it leaves out on purpose."""
