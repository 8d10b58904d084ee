"""What passes ask of a program: constants, counters, ranges, facts about sizes."""
