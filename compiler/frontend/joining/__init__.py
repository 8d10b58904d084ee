"""Values that both the walk and single operators make: joined from branches, taken out of containers, squeezed."""
