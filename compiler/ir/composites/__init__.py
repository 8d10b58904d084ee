"""What composites are made of: the other primitives that compute the same."""
