"""Memory planning: queues, buffers, workspaces."""
