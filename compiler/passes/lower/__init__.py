"""Passes that take apart what a target has no kernel for, and lower the precision."""
