"""Which offsets a query reads, decided without doing: no Spark, no log, no clock in here."""
