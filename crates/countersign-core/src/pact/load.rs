//! Reading the TOML text of a pact.
