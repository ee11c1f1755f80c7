"""The exactly-once protocol of the sink, over `Cluster` alone: no Spark, no clock, no files.

    commit_protocol     its interface for the sink, on the driver and in a task
    sink_identity       the ids of a query, an application or a single write in the log
    decision            the last decided batch, as stored in the log
    task_transaction    the task's side: check, open, write, leave open
    sink_driver         the driver's side: take over, decide, abandon, end leftovers
    steps               every point at which a process may die, each with a log line

A batch becomes readable by one decision, which ends the driver's and all tasks' transactions together:

    driver  take over ───────────────────────────────────► decide ──► end leftovers
              fences older drivers,     │                     ▲
              ends what they left       ▼                     │ (task, attempt, producer id, epoch)
    task                  check: driver current? decided? ─► open ─► write ─► leave open

If a process dies before the decision, only open transactions remain; their rows are not readable, and the next driver
ends them. If it dies after the decision, the batch is committed: the next driver finishes it, and the tasks of the
repeated batch find the decision and write nothing.
"""
