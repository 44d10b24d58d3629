//! The program `weir`.

fn main() -> std::process::ExitCode {
    weir::main()
}
