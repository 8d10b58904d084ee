"""Modules divided over devices: which values are divided how, and the program that each device runs."""
