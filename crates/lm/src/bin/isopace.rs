//! The `isopace` command.

fn main() -> std::process::ExitCode {
    isopace_lm::cli::main()
}
