//! `contend merge`: what is merged is read as one profile by every command that compares or predicts.

mod common;

use common::{HANG, Source, contend, json, run};
use serde_json::Value;
use std::path::Path;

/// Profiles a command line, the last words of `arguments`, into a file of this name.
fn profile(directory: &Path, name: &str, arguments: &[&str]) -> String {
    let file = directory.join(name).to_str().expect("a plain path").to_owned();
    let mut command = contend(&["profile", "-q", "-o", &file, "--"]);
    command.args(arguments);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    file
}

/// Of processes of two programs, one of which has striped locks and call sites with stacks.
fn profiles(directory: &Path) -> [String; 3] {
    let injected = Source::program("injected.c").compile();
    let striped = Source::program("striped.cc").compile();
    let [injected, striped] = [&injected, &striped].map(|path| path.to_str().expect("a plain path"));
    [
        profile(directory, "one.contend", &[injected, "2", "500"]),
        profile(directory, "two.contend", &[injected, "3", "500"]),
        profile(directory, "striped.contend", &[striped]),
    ]
}

fn report(files: &[&str]) -> Value {
    json(&[&["report"], files, &["--json"]].concat())
}

#[test]
fn a_merged_file_says_what_its_profiles_say_together() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let files = profiles(directory.path());
    let [one, two, striped] = files.each_ref().map(String::as_str);
    let [first, all] = ["first.contend", "all.contend"].map(|name| directory.path().join(name));
    let [first, all] = [&first, &all].map(|path| path.to_str().expect("a plain path"));
    let merged = json(&["merge", one, two, "-o", first, "--json"]);
    assert_eq!(merged["profiles"].as_array().map(Vec::len), Some(2), "{merged}");
    // What is merged is merged with others.
    let merged = json(&["merge", first, striped, "-o", all, "--json"]);

    // A pattern of names takes up the sum of last time, too.
    let again = json(&["merge", one, first, two, "-o", &format!("{first}-again"), "--json"]);
    assert_eq!(
        (&again["twice"], again["profiles"].as_array().map(Vec::len)),
        (&serde_json::json!([one, two]), Some(2))
    );

    let (of_merged, of_parts) = (report(&[all]), report(&[one, two, striped]));
    assert!(of_merged == of_parts, "{of_merged:#}\n{of_parts:#}");
    assert_eq!(report(&[first, striped]), of_parts);
    let rows = of_parts["rows"].as_array().expect("rows");
    let sides = rows.iter().flat_map(|row| [&row["exclusive"], &row["shared"]]);
    let sum: u64 = sides.filter_map(|side| side["acquisitions"].as_u64()).sum();
    assert_eq!(merged["acquisitions"], sum);
    assert!(sum > 1_000 && of_parts["striped"].as_array().is_some_and(|stripes| !stripes.is_empty()));

    let pages = ["--html", "--pprof", "--folded", "--otel"].map(|flag| {
        let path = directory.path().join(&flag[2..]);
        let mut command = contend(&["report", all, flag]);
        command.arg(&path);
        (run(command, HANG), path)
    });
    for (outcome, path) in pages {
        assert!(outcome.succeeded() && path.metadata().is_ok_and(|data| data.len() > 0), "{outcome}");
    }
}

#[test]
fn merged_files_are_compared_and_predicted_from() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let files = profiles(directory.path());
    let [one, two, _] = files.each_ref().map(String::as_str);
    let all = directory.path().join("all.contend");
    let all = all.to_str().expect("a plain path");
    assert!(run(contend(&["merge", one, two, "-o", all]), HANG).succeeded());
    let locks = json(&["diff", all, all, "--json"])["locks"].take();
    let of_hot = |lock: &&Value| lock["name"] == "hot_lock";
    let hot = locks.as_array().and_then(|locks| locks.iter().find(of_hot)).expect("the lock of both");
    assert_eq!(hot["before"]["acquisitions"], hot["after"]["acquisitions"], "{hot:#}");
    assert!(hot["before"]["acquisitions"].as_f64().is_some_and(|count| count > 0.0), "{hot:#}");
    // On a busy machine there is no forecast, which is said of the profile.
    let predicted = run(contend(&["predict", all, "--cores", "1,2", "--lock", "mcs"]), HANG);
    let told = predicted.stdout.replace('\n', " ");
    assert!(predicted.succeeded() || told.contains("No forecast"), "{predicted}");
    let arguments = ["gate", "--against", all, "--worse-by", "100%", "--noise-limit", "100%", "--runs", "1"];
    let gated = run(contend(&[&arguments[..], &["--", "true"]].concat()), HANG);
    assert!(!gated.stderr.contains("were merged") && !gated.stderr.contains("not a profile"), "{gated}");
}

#[test]
fn what_cannot_be_merged_is_named() {
    let directory = tempfile::tempdir().expect("a place for profiles");
    let files = profiles(directory.path());
    let all = directory.path().join("all.contend");
    let all = all.to_str().expect("a plain path");
    assert!(run(contend(&["merge", &files[0], "-o", all]), HANG).succeeded());
    let whole = std::fs::read(all).expect("the merged file");
    let cut = directory.path().join("cut.contend");
    std::fs::write(&cut, &whole[..whole.len() - 9]).expect("a file");
    let cut = cut.to_str().expect("a plain path");
    for (arguments, code, words) in [
        (&["merge", &files[0], all, "-o", all][..], 2, "would be written over"),
        (&["merge", &files[0], "-o", &files[1]], 2, "would be written over"),
        (&["merge", "/etc/hostname", "-o", all], 1, "is not a profile"),
        (&["merge", cut, "-o", all], 1, "damaged"),
        (&["report", cut], 1, "damaged"),
        (&["run", "--profile", all, "--only", "hot_lock=mcs", "--", "true"], 1, "were merged"),
        (
            &["profile", "-o", all, "--", "true"],
            1,
            "holds merged profiles, which would be written over: give another name",
        ),
        (&["profile", "--force", "-o", all, "--", "true"], 1, "holds merged profiles"),
    ] {
        let refused = run(contend(arguments), HANG);
        let told = refused.stderr.replace('\n', " ");
        assert_eq!(refused.status.and_then(|status| status.code()), Some(code), "{refused}");
        assert!(told.contains(words), "{words}: {refused}");
    }
    assert_eq!(std::fs::read(all).expect("the merged file"), whole, "what was there stays");
}
