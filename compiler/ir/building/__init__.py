"""The builder in parts, each with the methods for one kind of primitive; `ir/builder.py` puts them together."""
