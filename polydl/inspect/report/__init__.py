"""Presents the record of a run (`polydl optimize --save`) as a page, charts, tables and text."""
