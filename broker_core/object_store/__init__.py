"""Object stores, each a `broker_core.ports.ObjectStore`: S3, GCS and Azure by a client library, and a folder."""
