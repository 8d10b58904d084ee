"""Pairs for the rules of `canonicalize`, one file per theme as there: FIRES and REFUSES, by rule."""
