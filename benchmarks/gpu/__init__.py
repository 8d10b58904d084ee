"""What is run on a machine with a GPU: the device's values checked, its figures measured, our times beside others'."""
