"""Looking inside: pages of models and artifacts, each one file of HTML that asks no network for anything."""
