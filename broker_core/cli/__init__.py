"""The command `streamlog`: topics, values in and out, and a look at the files of a log directory."""
