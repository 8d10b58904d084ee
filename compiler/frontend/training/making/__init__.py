"""Training information of a loss and an optimizer."""
