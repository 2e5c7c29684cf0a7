"""Generated from proto/ by `make proto`. Not written by hand."""
