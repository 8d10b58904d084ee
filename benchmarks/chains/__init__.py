"""Random chains of operators at real sizes: what single operators and whole models leave out is between them."""
