#![doc = include_str!("../README.md")]

mod args;
pub mod chaos;
mod client;
pub mod demo;
pub mod myths;
mod random;
pub mod tpcc;
