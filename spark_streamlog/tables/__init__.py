"""Metadata tables: topics, segments, batches, groups, transactions and lag as rows."""
