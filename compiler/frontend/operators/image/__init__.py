"""Operators on images: resampling, regions of interest, boxes, decoding."""
