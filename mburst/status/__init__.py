"""The status of a store and of its host's parts, as facts and as sentences about problems: `mburst status`."""
