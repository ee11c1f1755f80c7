"""Plans which offsets a query reads. Only decisions: no Spark, no log, no clock in this package."""
