"""Imported last by processes that are forked again and again: what they have loaded is no garbage.

A collection in a child would look at all of it, and copy the memory that it shares with its siblings.
"""

import gc

gc.collect()
gc.freeze()
