"""Apache Kafka's partitioned log in Python: see README.md beside this file for the map of rooms and floors."""
