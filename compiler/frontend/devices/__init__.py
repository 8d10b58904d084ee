"""Device configurations: what nodes say of devices, and the mesh that the shardings of one configuration fit."""
