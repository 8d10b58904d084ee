"""Tests of the IR: sizes, types, text, rules, and the tables of the primitives."""
