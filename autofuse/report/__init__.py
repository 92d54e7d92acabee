"""How results look on a terminal; the functions take the data that ``--json`` prints."""
