#![doc = include_str!("../README.md")]

pub mod append;
mod history;
pub mod register;

pub use history::{Operation, Outcome, Recorder, read};
