"""The names of the stages of a compilation, in order; `driver.py` says what each of them makes."""

__all__ = ["STAGES"]

STAGES = ("read", "check", "lower", "optimize", "plan", "emit")
