/// Jobs are made on one thread and dropped on another, which the system's allocator is slow at: with this one
/// about a tenth more goes through.
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    recado_cli::main()
}
