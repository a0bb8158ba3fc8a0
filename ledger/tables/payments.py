"""Forms of payment: authorised, captured in parts, through a platform, split, paid back by hand."""
