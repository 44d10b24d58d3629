//! weir
fn main() {}
