"""Python imports this at its start wherever this folder is on PYTHONPATH, and no other `sitecustomize` before it."""

from warm_up import warm_up

warm_up()
