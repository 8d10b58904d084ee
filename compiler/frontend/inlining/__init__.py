"""Functions, and operators that have a body as functions have, expanded in the messages of a model."""
