"""Recurrent cells over sequences."""
