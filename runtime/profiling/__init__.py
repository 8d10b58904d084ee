"""What a call of an executable spends its time on: launches recorded, named, and held against the machine's limits."""
