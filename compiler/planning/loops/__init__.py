"""What kernels loop over: domains, strided views, and the sums of products, convolutions and rows as loops."""
