"""Passes that find a composite in the ops that exporters spell it with."""
