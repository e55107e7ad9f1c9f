//! Tickets: requested, approved, redeemed once, and the receipt that repeats give back.

/// Where tickets live.
pub trait TicketStore: Send + Sync {}
