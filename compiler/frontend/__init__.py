"""From a model file to IR: reading, checking, inferring types and lowering; nothing here knows of targets."""
