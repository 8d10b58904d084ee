"""Files: opened without waiting and replaced whole, artifacts among them, and where machine code is kept."""
