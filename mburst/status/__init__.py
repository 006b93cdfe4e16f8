"""How a store and its host's parts are, in facts and in sentences that say what is not well: `mburst status`."""
