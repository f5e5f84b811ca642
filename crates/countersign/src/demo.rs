//! The demo: races lost without the gate and won with it.
