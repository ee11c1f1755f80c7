"""The transaction coordinator: transactional ids, their states, and the records that they are kept in."""
