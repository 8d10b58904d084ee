"""Native calls: what they need besides their arrays, how they are made, and what they find wrong."""
