"""Routines: runs of steps that are one native call, the buffers of their values, and the proof of these."""
