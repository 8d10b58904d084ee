"""What a call of a divided model should cost: its plan is gone through, and nothing is computed."""
