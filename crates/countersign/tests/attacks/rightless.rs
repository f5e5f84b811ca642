//! Callers without any right: what they can make the gate do, write, keep or tell.
