"""Loops whose number of rounds is known: what they become where a host would have to drive them."""
