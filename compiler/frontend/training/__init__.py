"""Training information: its graphs resolved, what they do to initializers, and how it is made."""
