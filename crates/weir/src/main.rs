//! The program `weir`.

/// What the loader calls before the standard library begins.
#[allow(unsafe_code, reason = "nothing of a program runs earlier by safe means")]
#[used]
// SAFETY: the section is a list of such functions ("Initialization and Termination Functions" of the System V
// ABI).
#[unsafe(link_section = ".init_array")]
static BEGINS: extern "C" fn() = weir::stdout::begin;

fn main() -> std::process::ExitCode {
    weir::main()
}
