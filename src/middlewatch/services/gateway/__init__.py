"""The API's server: HTTP/JSON and gRPC over the store. Import `server` only where it runs."""
