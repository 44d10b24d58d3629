//! What help says to someone who does not know where to begin.

/// `weir`, `weir help`.
pub const WEIR: &str = "\
Begin with:
  weir demo                what weir does, shown on this machine alone
  weir get URL             a download, and what limited it; weir URL means the same
  weir why -- COMMAND      what limits the transfer of another program
  weir self-check          what works on this machine
  weir help get            all options of a command, with examples; likewise for the others
Exit codes: 0 complete, 1 failed, 2 usage, 3 verification failed, 4 incomplete but resumable, 130 interrupted (what can be resumed is kept), 141 the reader of stdout is gone.
File: ~/.config/weir/config (in $XDG_CONFIG_HOME/weir, where that is set) holds flags in front of those given, one a line: first those
for every command that has them, then those below [get], [bench net] and so on. WEIR_CONFIG=FILE names another file, WEIR_CONFIG= none.
Environment: http_proxy, https_proxy, no_proxy, NO_COLOR, SSL_CERT_FILE, NETRC, WEIR_CONFIG.";

/// `weir lab`.
pub const LAB: &str = "\
Begin with:
  weir lab shell --rate 100Mbit --delay 10ms           your shell at one end of such a path; exit leaves it
  weir lab list                                        published experiments, to be run by name
  weir help lab shell                                  all options, with examples; likewise for the others";

/// `weir bench`.
pub const BENCH: &str = "\
Begin with:
  weir bench mem --quick                 this machine's caches and memory, in a few seconds
  weir bench net -c HOST                 the network to a host where weir bench net -s runs, or iperf3 -s
  weir bench http URL                    load on a server, and what limited the figure
  weir help bench net                    all options, with examples; likewise for the others";
