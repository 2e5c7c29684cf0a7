"""The API's client, for the command line and for controllers on other machines."""
