"""What `mburst demo` does: a cache server's incast, real or simulated, through the commands of mburst."""
