"""The wire: generated Protobuf code and what is derived from it (HTTP routes, JSON, OpenAPI)."""
