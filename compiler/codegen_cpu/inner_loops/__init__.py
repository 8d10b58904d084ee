"""The innermost loops of products and convolutions, shared by all kernels of an image, and what they pack."""
