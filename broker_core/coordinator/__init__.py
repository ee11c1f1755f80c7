"""What every coordinator has in common: it answers with records to append and a reply, and only replay changes it."""
