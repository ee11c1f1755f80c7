"""The source: plans and readers, batch and streaming."""
