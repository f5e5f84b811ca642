//! Making a folder, and settings from file, environment and flags.

use crate::cli::sandbox::Sandbox;

#[test]
fn a_folder_is_made_once() {
    let sandbox = Sandbox::new();
    let shown = [
        sandbox.run("init --data data").must(0).shown(),
        sandbox.run("init --data data").must(3).shown(),
        sandbox.run("init --data other --origin no+good").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(
        sandbox.run("init --data third --admin-key third.key --json").must(0).json()["origin"],
        "countersign.local/log"
    );
}

#[test]
fn an_unknown_key_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("countersign.toml", "data = \"data\"\nqueue_lenght = 100\n");
    sandbox.write("broken.toml", "data = \"data\"\nlisten = 127.0.0.1\n");
    let shown = [
        sandbox.run("init").must(2).shown(),
        sandbox.run("init --config broken.toml").must(2).shown(),
        sandbox.run("init --config nowhere.toml").must(2).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert!(!sandbox.path().join("data").exists(), "nothing is done under settings that are not understood");
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let mut sandbox = Sandbox::new();
    let made = |sandbox: &Sandbox, line: &str| sandbox.run(line).must(0).json()["data"].as_str().unwrap().to_owned();
    assert_eq!(made(&sandbox, "init --open --json"), "countersign-data");
    sandbox.write("countersign.toml", "data = \"from-file\"\norigin = \"file.example/log\"\n");
    assert_eq!(made(&sandbox, "init --open --json"), "from-file");
    sandbox.env("COUNTERSIGN_DATA", "from-env");
    assert_eq!(made(&sandbox, "init --open --json"), "from-env");
    assert_eq!(made(&sandbox, "init --json --data from-flag"), "from-flag");
    sandbox.write("elsewhere/settings.toml", "data = \"there\"\n");
    let mut sandbox_2 = Sandbox::new();
    sandbox_2.write("elsewhere/settings.toml", "data = \"there\"\n");
    sandbox_2.env("COUNTERSIGN_CONFIG", "elsewhere/settings.toml");
    assert_eq!(made(&sandbox_2, "init --open --json"), "elsewhere/there");
}
