"""The content of `mburst demo`: the incast of a cache server, real or simulated, through the commands of mburst."""
