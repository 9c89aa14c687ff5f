#![doc = include_str!("../README.md")]

mod args;
mod client;
pub mod demo;
mod random;
pub mod tpcc;
