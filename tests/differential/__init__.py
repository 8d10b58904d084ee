"""Single-operator models drawn from the schemas, computed by several engines whose answers must agree."""
