"""The operator sweep: single operators with real shapes, alone and among what exporters put beside them."""
