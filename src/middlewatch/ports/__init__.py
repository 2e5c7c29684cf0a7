"""What the rooms need of the world, as Protocols in our own verbs."""
