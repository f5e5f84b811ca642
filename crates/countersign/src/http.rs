//! HTTP v1.
