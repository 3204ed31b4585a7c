//! `compile`: one plan for every value, a cache that is bounded, and an account of each miss.

pub(crate) mod trace;
