//! Pure log mathematics of Countersign: leaves, tree, proofs, checkpoints, receipts, offline verification.
