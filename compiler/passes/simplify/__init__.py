"""Passes that make a program smaller or plainer, and never worse."""
