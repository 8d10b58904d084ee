"""Layers of neural networks: activations, normalisations, convolutions, pooling, losses."""
