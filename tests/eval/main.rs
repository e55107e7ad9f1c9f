//! `holdpoint eval run`, from the outside.

#[cfg(test)]
mod airline;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod refund;
#[cfg(test)]
mod retail;
#[cfg(test)]
mod support;
#[cfg(test)]
mod world;
