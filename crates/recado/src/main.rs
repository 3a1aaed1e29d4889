fn main() -> std::process::ExitCode {
    recado::cli::main()
}
