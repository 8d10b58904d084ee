"""Attention in its forms, and rotary embeddings."""
