"""Template families, one file each.  A family looks at a group and proposes candidates."""
