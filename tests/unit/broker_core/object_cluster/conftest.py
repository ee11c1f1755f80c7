from support.objects.memory_log import cluster, log

__all__ = ["cluster", "log"]
