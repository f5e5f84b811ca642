//! Requests changed in transit, tokens from elsewhere, words that mislead a reviewer.
