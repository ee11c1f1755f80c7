"""Consumer groups: committed offsets, plain and within transactions, and the records that they are kept in."""
