"""The basis of every coordinator: it returns records to append and a reply, and only replay changes its state."""
