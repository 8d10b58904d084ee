"""One file per kernel kind."""
