//! `recado bench`, as far as it measures nothing.

use std::process::{Child, Stdio};

use super::given::{Place, eventually};

/// A bench that is under way. Ends with the test.
struct Bench(Child);

impl Bench {
    fn start(place: &Place) -> Self {
        let mut command = place.command(&["bench", "pages"]);
        Bench(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the bench starts"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_ends_the_bench_and_removes_its_files() {
    for signal in ["-INT", "-TERM"] {
        let place = Place::new();
        let mut bench = Bench::start(&place);
        let dir = place.path().join("recado-bench");
        eventually(|| std::fs::read_dir(&dir).is_ok_and(|mut files| files.next().is_some()));
        let sent = std::process::Command::new("kill").args([signal, &bench.0.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert_eq!(bench.0.wait().expect("a child").code(), Some(1), "{signal}");
        assert!(!dir.exists(), "{signal}");
    }
}

#[test]
fn a_flag_that_the_part_does_not_read_is_refused() {
    let place = Place::new();
    for (part, flag, owner) in
        [("flow", "--url=redis://127.0.0.1:1", "redis"), ("lanes", "--pending=5000", "flow")]
    {
        let said = place.run(&["bench", part, flag]).failed_with(2);
        assert!(said.contains(&format!("measure with `recado bench {owner}`")), "{said}");
    }
    assert!(!place.path().join("recado-bench").exists());
}

#[test]
fn a_directory_that_exists_may_be_what_a_killed_run_left() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("recado-bench")).expect("a directory");
    let said = place.run(&["bench"]).failed_with(2);
    assert!(said.contains("./recado-bench exists; remove it if a killed run left it"), "{said}");
}
