"""What others do at the provider: refunds made there by hand, disputes."""
