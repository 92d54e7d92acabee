"""The memory plan: queues, buffers, workspaces."""
