//! The environment that a store's words are read from: a parameter, so that tests have one of their own.

/// The environment: a variable's value, if it is set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;
