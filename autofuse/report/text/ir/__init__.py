"""The IR as text, and its changes in each stage of a build."""
