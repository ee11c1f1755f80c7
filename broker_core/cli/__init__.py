"""The command `streamlog`: manages topics and groups, produces and consumes values, inspects the files of a log."""
