"""From a provider's live state to a published generation."""
