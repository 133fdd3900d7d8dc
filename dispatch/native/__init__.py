"""The hot paths of workers on the event loop: polls are parked without a thread, results are committed together."""
