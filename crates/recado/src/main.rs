/// Jobs are made on one thread and dropped on another, which the system's allocator is slow at
/// (docs/decisions/0027-a-release-build-takes-five-minutes.md).
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    recado_cli::main()
}
