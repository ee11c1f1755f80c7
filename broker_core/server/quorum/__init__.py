"""A node of the metadata quorum as a process: settings, disk, links to the others, listener."""
