"""What a model keeps beside its file: tensor data read from other files, and written to them."""
