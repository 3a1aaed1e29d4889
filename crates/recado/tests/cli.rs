//! The binary from outside: started, asked over HTTP and by its own commands, stopped.
//!
//! Every test has a directory and a server of its own, on a port that the system chooses.

mod cli {
    mod audit;
    mod benching;
    mod camunda;
    mod chaos;
    mod commands;
    mod configuring;
    mod damage;
    mod dead_letters;
    mod deciding;
    mod delivering;
    mod demo;
    mod failing;
    mod given;
    mod logging;
    mod moved_directory;
    mod moving;
    mod redis;
    mod simulating;
    mod slow_readers;
    mod starting;
    mod stopping;
    mod stranded;
    mod suggesting;
}
