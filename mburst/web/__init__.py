"""The common part of the web servers (`mburst live`, `mburst metrics`): their addresses, access control, and protection
against slow or many clients."""
