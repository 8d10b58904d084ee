"""What several operators say in the same way; no file here is an operator."""
