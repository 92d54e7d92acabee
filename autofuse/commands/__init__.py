"""The verbs: a folder by what they are about, in each the words of a verb and the modules that do its work."""
