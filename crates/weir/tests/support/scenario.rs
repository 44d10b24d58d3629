//! A scenario of the lab that is over at once.

/// 300 KB at 20 Mbit/s and 10 ms take a fifth of a second, and any user can run it.
pub(crate) const QUICK: &str = r#"
title = "a short one"
published = "nothing"
law = "300 KB / 2.41 MB/s and a few round trips of slow start"

[path]
rate = "20Mbit"
delay = "5ms"

[workload.socket]
bytes = "300K"

[[figure]]
of = "seconds"
is = "0.2s"
within = 0.6
"#;
