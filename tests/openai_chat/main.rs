//! `OpenAI` Chat Completions through the adapter's public face, with a closure in place of the guard.

#[cfg(test)]
#[path = "../support/adapter.rs"]
mod adapter;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod messy;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod provider_tools;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod untrusted;
#[cfg(test)]
mod wrapped;
