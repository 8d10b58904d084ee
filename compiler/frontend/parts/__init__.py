"""Models made of parts of models: values renamed, a part taken out, two models joined."""
