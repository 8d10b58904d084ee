"""From relocatable objects to a shared library: objects read, code moved to its addresses, an image written."""
