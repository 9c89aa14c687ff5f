#![doc = include_str!("README.md")]

mod threads;

pub use threads::{Collected, ThreadEnd, close_threads, collect, recover_all};
