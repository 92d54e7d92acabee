"""What the verbs do: ``autofuse.cli`` reads the words, these modules act on them."""
