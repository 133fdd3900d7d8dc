"""Loops, wake-ups and the lifeline between a supervisor and its children."""
