"""What commands print: tables, descriptions of models, sizes and stages as text."""
