"""Whole models: small graphs of the kinds that exporters write, and the light models of the official tests."""
