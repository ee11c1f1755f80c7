"""The log on object storage as a machine: commits, the image they add up to, and plans. No store, clock or dice."""
