"""Options of source and sink, parsed once into frozen values."""
