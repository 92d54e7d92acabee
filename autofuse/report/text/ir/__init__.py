"""The IR as text, and what each stage of a build made of it."""
