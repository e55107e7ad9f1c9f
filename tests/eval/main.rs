//! `holdpoint eval run`, from the outside.

#[cfg(test)]
mod desk;
#[cfg(test)]
mod refund;
#[cfg(test)]
mod support;
