//! Personal data that outlives its erasure.
