"""What the web servers (`mburst live`, `mburst metrics`) share: where they listen, who may look, and that slow or many
clients cost themselves and nobody else."""
