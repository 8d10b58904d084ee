"""Operands whose ranks only data tells, where one form serves all ranks."""
