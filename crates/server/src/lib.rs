//! The server: PostgreSQL's wire protocol (version 3) in front of an engine.
//!
//! What for: clients connect over TCP or a Unix socket, log on, and run statements through the
//! simple or the extended protocol. A session has its own OS thread (`dedicated`); its thread reads
//! what the client sent, handles every complete message, and writes once at each point where the
//! client waits for an answer, so that a statement costs one read and one write.
//!
//! What it promises: whatever bytes a client sends, the instance stays up and other sessions do not
//! notice; a statement that panics ends with `XX000` and its session goes on; a message is bounded
//! in length before memory is taken for it; every wait for the client is a named wait event.
//!
//! What it must never do: know SQL, blocks or the cluster. It talks to [`engine::Engine`];
//! `sql_engine` puts `sql::Session` behind that trait.

// The future of a call is made of those of all that it may come to, which are many deep.
#![recursion_limit = "256"]

mod auth;
#[cfg(feature = "sql")]
pub mod console;
pub mod engine;
mod input;
mod listener;
mod message;
mod output;
mod registry;
mod report;
mod session;
#[cfg(feature = "sql")]
pub mod sql_engine;
mod startup;
mod stream;
mod tls;

/// What reads bytes of clients, for who feeds it with damaged ones.
pub mod decoders {
    pub use crate::auth::Exchange;
    pub use crate::message::{DecodeError, Frontend, decode};
    pub use crate::startup::parse_startup;
}

pub use crate::report::{Extra, Report, Severity};
pub use auth::scram_verifier;
pub use listener::{Server, ServerConfig};
pub use output::Output;
pub use tls::{Tls, TlsFiles};
