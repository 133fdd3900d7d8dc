"""The pure engine: definitions in, decisions out. Standard library and itself only."""
