"""The exactly-once protocol of the sink, over `Cluster` alone: no Spark, no clock, no files.

    commit_protocol     what the sink asks of it, on the driver and in a task
    sink_identity       under which names a query, an application or a single write appears in the log
    decision            what the log remembers of the last decided batch
    task_transaction    what one task does: look, open, write, leave open
    sink_driver         what the driver does: take over, decide, abandon, end leftovers
    steps               every point at which a process may die, each one a log line

A batch becomes readable by one decision, which ends the driver's and all tasks' transactions together:

    driver  take over ───────────────────────────────────► decide ──► end leftovers
              fences older drivers,     │                     ▲
              ends what they left       ▼                     │ (task, attempt, producer id, epoch)
    task                  look: driver current? decided? ─► open ─► write ─► leave open

Dies somebody before the decision, only open transactions are left, which nobody reads and the next driver ends. Dies
somebody after it, the decision stands: whoever comes next at the log finishes it, and tasks of the repeated batch look,
see that it is decided, and write nothing.
"""
