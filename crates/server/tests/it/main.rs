//! The server against a small engine of its own: real sockets, real client, hand-made bytes.
//!
//! Invariants checked: an answer for every request, in order; an error skips to Sync and no
//! further; whatever bytes come, the server goes on; a cancel needs the secret; the connection
//! limit and the end of the server are told to the client.

mod clients;
mod engine;
mod protocol;
