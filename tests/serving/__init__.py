"""Tests of the server: its parts, and a live one in a process with the clients that people use."""
