"""Fourier transforms, and the windows and filters that go with them."""
