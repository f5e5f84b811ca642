//! Wire types, error codes and the OpenAPI document of the v1 HTTP interface.
