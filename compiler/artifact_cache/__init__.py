"""Whole artifacts on disk, each under the digest of all that it was compiled from, so that nothing is compiled twice.

Importing what is here loads none of the compiler's stages: a model that is in the cache does without them.
"""
