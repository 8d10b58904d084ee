"""Parts of pages of HTML that ask no network for anything: data put in, tables, timelines, graphs laid out, drawn."""
