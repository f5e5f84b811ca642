//! Approvals, revocations and pacts that change between the decision and the attempt.
