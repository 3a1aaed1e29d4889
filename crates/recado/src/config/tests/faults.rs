use super::*;

#[test]
fn try_it() {
    println!("{}", template::default_file());
    println!("{}", template::starter_file());
}
