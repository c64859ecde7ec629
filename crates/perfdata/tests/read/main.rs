//! Recordings of every shape are read as they were made; damaged ones give their good part, or an error that names
//! what is wrong.

#![allow(clippy::unwrap_used)]

mod damage;
mod features;
mod recording;
mod shapes;
