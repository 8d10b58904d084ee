"""What followed from sizes that options override: constants of nodes with the new sizes in the place of the old."""
