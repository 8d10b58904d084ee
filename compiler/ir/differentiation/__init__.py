"""Reverse-mode differentiation of a program: the rules are in `derivatives/`, the walk back is here."""
