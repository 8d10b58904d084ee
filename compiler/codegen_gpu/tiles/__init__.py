"""Which tiles a kernel may have, and what a launch of them costs on a card."""
