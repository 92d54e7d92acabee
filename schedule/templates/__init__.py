"""Template families, one file each.  A family inspects a group and proposes candidates."""
