"""What differs between two runs of a model, and the smallest model that still shows it."""
