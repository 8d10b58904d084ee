"""A fuzzer: small real models, changed at random but by their structure, and what becomes of each."""
