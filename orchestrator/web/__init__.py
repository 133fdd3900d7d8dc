"""The HTTP tier: one port, hot paths native, everything else Django in a bounded thread pool."""
