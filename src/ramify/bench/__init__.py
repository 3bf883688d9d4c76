"""What a method costs beside the bare forward, backward and Adam step of its network."""
