//! Pages for a browser: what is in the file, and what Chromium makes of it, where it is installed.

#[path = "common/all.rs"]
mod all;
mod common;
#[path = "page/pictures.rs"]
mod pictures;

use common::{HANG, Source, contend, json, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ends the element of a script, the title, an attribute and a comment, where it is let.
///
/// Without a point, behind which the suffix of a compiler would be cut off.
const HOSTILE: &str =
    "</script><script>document['title']='owned'</script><img/src=x/onerror=document['title']='owned'>\"'&";

/// A profile of the program, which has the locks of `injected.c`.
fn profile(program: &Path, directory: &Path) -> String {
    profile_of(program, directory, "2")
}

/// The same with so many threads.
fn profile_of(program: &Path, directory: &Path, threads: &str) -> String {
    let file = directory.join("p.contend").to_str().expect("a plain path").to_owned();
    let mut command = contend(&["profile", "-q", "-o", &file, "--"]);
    command.arg(program).args([threads, "2000"]);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    file
}

/// What forecasts the profile's `hot_lock` for few cores, with two locks in its place.
fn forecast(profile: &str) -> [&str; 8] {
    ["predict", profile, "--site", "hot_lock", "--cores", "1,2,4,8", "--lock", "queue,ticket"]
}

/// A profile of one thread that `predict` takes. A machine busy with other tests makes void ones, which say nothing.
fn predictable(directory: &Path) -> String {
    let program = Source::program("injected.c").compile();
    let is_void = |profile: &String| {
        let command = contend(&["predict", profile, "--site", "hot_lock", "--cores", "1", "--lock", "queue"]);
        run(command, HANG).status.and_then(|status| status.code()) == Some(3)
    };
    (0..20)
        .map(|_| profile_of(&program, directory, "1"))
        .find(|profile| !is_void(profile))
        .expect("one profile of twenty that is not void")
}

/// Runs a command line of contend that writes a page; gives the page's path.
fn page(directory: &Path, arguments: &[&str]) -> PathBuf {
    let path = directory.join("page.html");
    let mut command = contend(arguments);
    command.arg("--html").arg(&path);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "contend {}: {outcome}", arguments.join(" "));
    path
}

/// What the rows of a page are drawn from.
fn data(page: &Path) -> Value {
    let text = fs::read_to_string(page).expect("the page");
    let from = "<script type=\"application/json\">";
    let (_, behind) = text.split_once(from).expect("rows");
    serde_json::from_str(behind.split_once("</script>").expect("an end").0).expect("JSON")
}

/// Chromium under one of its names. A test that needs it ends without it.
fn chromium() -> Option<&'static str> {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&str| {
        let mut command = Command::new(name);
        command.arg("--version");
        which(name).is_some() && run(command, HANG).succeeded()
    };
    let found = NAMES.into_iter().find(runs);
    if found.is_none() {
        eprintln!("left out: Chromium is not installed (apt-get install chromium)");
    }
    found
}

fn which(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// The document that Chromium ends with.
fn dumped(browser: &str, page: &Path, options: &[&str]) -> String {
    let own = tempfile::tempdir().expect("a place for the browser");
    let mut command = Command::new(browser);
    // Without a sandbox of its own, which root has none of.
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--disable-background-networking", "--dump-dom"]).args(options);
    command.arg(format!("--user-data-dir={}", own.path().display()));
    command.arg(format!("file://{}", page.display()));
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{browser}: {outcome}");
    outcome.stdout
}

/// What came of a copy of the page in which a script clicks and types.
fn driven(browser: &str, page: &Path, options: &[&str]) -> Value {
    outcome_of(&dumped(browser, &with_driver(page), options))
}

/// A copy of the page with the script that clicks and types. Only the copy allows it.
fn with_driver(page: &Path) -> PathBuf {
    let text = fs::read_to_string(page).expect("the page");
    let script = format!("<script nonce=\"driver\">{}</script></body>", include_str!("page/driver.js"));
    let (head, tail) = text.rsplit_once("</body>").expect("a body");
    let copy = page.with_extension("driven.html");
    let allowed = head.replacen("script-src ", "script-src 'nonce-driver' ", 1);
    fs::write(&copy, format!("{allowed}{script}{tail}")).expect("the copy");
    copy
}

/// What a script left in the document's element for outcomes.
fn outcome_of(document: &str) -> Value {
    let (_, outcome) = document.split_once("<pre id=\"outcome\">").expect("the script reached its end");
    serde_json::from_str(outcome.split_once("</pre>").expect("an end").0).expect("JSON")
}

/// What holds of every page, however it is shown.
fn assert_is_well_made(outcome: &Value) {
    assert_eq!(outcome["violations"], serde_json::json!([]), "{outcome}");
    assert_eq!(outcome["requests"], serde_json::json!([]), "{outcome}");
    assert_eq!(outcome["unnamed"], 0, "each control has a name: {outcome}");
    assert!(outcome["contrast"].as_f64().is_some_and(|contrast| contrast >= 4.5), "{outcome}");
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

/// The row of a lock among those of a page.
fn row_of<'a>(page: &'a Value, lock: &str) -> &'a Value {
    let rows = page["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["cells"][0] == lock).expect("the lock")
}

/// The buckets of a distribution that a row unfolds to.
fn buckets<'a>(row: &'a Value, name: &str) -> Vec<[&'a Value; 3]> {
    let times = row["times"].as_array().expect("times").iter().find(|times| times["name"] == name);
    let buckets = times.expect("the distribution")["buckets"].as_array().expect("buckets");
    buckets.iter().map(|bucket| [0, 1, 2].map(|place| &bucket[place])).collect()
}

#[test]
fn the_figures_of_a_page_are_those_of_the_json() {
    let directory = tempfile::tempdir().expect("a place");
    let profile = profile(&Source::program("injected.c").compile(), directory.path());
    let report = json(&["report", &profile, "--json"]);
    let rows = report["rows"].as_array().expect("rows");
    let usage = &rows.iter().find(|row| row["name"] == "hot_lock").expect("the lock")["exclusive"];
    let reported = usage["hold_same"]["buckets"].as_array().expect("buckets").iter();
    let reported: Vec<_> =
        reported.map(|bucket| ["from_ns", "to_ns", "count"].map(|key| &bucket[key])).collect();
    assert!(!reported.is_empty(), "{usage}");

    let locks = data(&page(directory.path(), &["report", &profile, "--top", "1"]));
    assert!(
        locks["rows"].as_array().is_some_and(|rows| rows.len() >= 5),
        "all, whatever is printed: {locks}"
    );
    let shown = row_of(&locks, "hot_lock");
    let columns = locks["columns"].as_array().expect("columns");
    let cell = |key: &str| {
        &shown["cells"][columns.iter().position(|column| column["key"] == key).expect("the column")][1]
    };
    assert_eq!(cell("acquisitions").as_f64(), usage["acquisitions"].as_f64());
    assert_eq!(cell("waited_ms").as_f64(), usage["wait"]["total_ns"].as_f64().map(|ns| ns / 1e6));
    assert_eq!(buckets(shown, "critical section, last holder on this core"), reported);

    let grown = data(&page(directory.path(), &["diff", &profile, &profile]));
    for when in ["before", "after"] {
        let name = format!("critical section, last holder on this core, {when}");
        assert_eq!(buckets(row_of(&grown, "hot_lock"), &name), reported);
    }
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_and_the_report_comes_out() {
    let directory = tempfile::tempdir().expect("a place");
    let profile = profile(&Source::program("injected.c").compile(), directory.path());
    for command in ["report", "predict"] {
        let outcome = run(contend(&[command, &profile, "--html", "/no/such/directory/p.html"]), HANG);
        assert!(outcome.status.is_some_and(|status| status.code() == Some(1)), "{outcome}");
        assert!(outcome.stderr.contains("cannot write /no/such/directory/p.html"), "{outcome}");
    }
    let outcome = run(contend(&["report", &profile, "--html", "/dev/full"]), HANG);
    assert!(outcome.stderr.contains("cannot write /dev/full"), "{outcome}");
    assert!(outcome.stdout.contains("hot_lock"), "{outcome}");
}

#[test]
fn a_browser_sorts_filters_and_unfolds_the_locks_and_asks_nobody() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let profile = profile(&Source::program("injected.c").compile(), directory.path());
    let page = page(directory.path(), &["report", &profile]);
    let rows = data(&page)["rows"].as_array().expect("rows").len();

    let as_it_is = dumped(browser, &page, &[]);
    assert!(as_it_is.contains("aria-expanded=\"false\""), "the page's own policy lets its script run");

    let outcome = driven(browser, &page, &[]);
    assert_is_well_made(&outcome);
    assert_eq!(strings(&outcome["names"]).len(), rows);
    assert_eq!(outcome["status"], format!("{rows} rows"));
    for (order, direction) in [("first", "descending"), ("second", "ascending")] {
        let [sort, focus, figures] = [0, 1, 2].map(|place| &outcome[order][place]);
        assert_eq!((sort, focus), (&direction.into(), &"section ns".into()), "{outcome}");
        let figures: Vec<f64> = strings(figures)
            .iter()
            .filter_map(|text| text.trim_start_matches("< ").replace(',', "").parse().ok())
            .collect();
        let ascending = figures.is_sorted();
        let descending = figures.iter().rev().is_sorted();
        assert!(
            figures.len() > 3 && if direction == "ascending" { ascending } else { descending },
            "{figures:?}"
        );
    }
    assert_eq!(outcome["sorted_by_others"], 1, "{outcome}");
    assert!(strings(&outcome["searched"][0]).iter().all(|name| *name == "index_lock"), "{outcome}");
    assert_eq!(outcome["searched"][1], format!("2 of {rows} rows"));
    let [kinds, modules] = [0, 1].map(|place| strings(&outcome["choices"][place]));
    assert_eq!(kinds, ["all", "mutex", "rwlock read", "rwlock write"]);
    assert!(modules.len() == 2 && modules[1].starts_with("injected"), "{outcome}");
    let mutexes = strings(&outcome["mutexes"]);
    assert!(mutexes.contains(&"hot_lock") && !mutexes.contains(&"index_lock"), "{outcome}");
    assert!(outcome["columns"][1].as_u64() > outcome["columns"][0].as_u64(), "{outcome}");

    let unfolded = &outcome["unfolded"];
    assert_eq!((&outcome["before"], &unfolded["expanded"]), (&"false".into(), &"true".into()));
    assert_eq!(unfolded["shown"], true);
    assert!(unfolded["bars"].as_u64().is_some_and(|bars| bars > 0), "{unfolded}");
    assert!(strings(&unfolded["histograms"])[0].contains(" timed, "), "{unfolded}");
    assert!(strings(&unfolded["calls"])[0].contains("with_hot_lock"), "{unfolded}");
    assert!(strings(&unfolded["facts"]).contains(&"owner changes %"), "{unfolded}");
    assert_eq!(outcome["folded"], serde_json::json!(["false", 0]));

    let narrow_and_dark =
        driven(browser, &page, &["--window-size=500,900", "--blink-settings=preferredColorScheme=0"]);
    assert_is_well_made(&narrow_and_dark);
    assert_eq!(narrow_and_dark["dark"], true);
    let [content, window] = [0, 1].map(|place| narrow_and_dark["width"][place].as_u64());
    assert!(content <= window, "nothing is wider than a phone: {narrow_and_dark}");
    for outcome in [&outcome, &narrow_and_dark] {
        let rows = strings(&outcome["told"]).into_iter().filter(|row| row.starts_with("index_lock"));
        let rows: Vec<String> =
            rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for side in ["rwlock read", "rwlock write"] {
            let of_side = rows.iter().filter(|row| row.contains(side)).count();
            assert_eq!((of_side, rows.len()), (1, 2), "the sides of a lock are told apart: {outcome}");
        }
    }
}

/// A name without `::` and `/`, as C has it, breaks where it must.
#[test]
fn a_long_name_makes_no_page_wider_than_a_phone() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let program = directory.path().join("long");
    let mut rename = Command::new("objcopy");
    let name = "table_lock_".repeat(12);
    rename.arg("--redefine-sym").arg(format!("table_lock={name}")).arg("--strip-debug");
    rename.arg(Source::program("slow_holder.c").compile()).arg(&program);
    let outcome = run(rename, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let file = directory.path().join("p.contend");
    let file = file.to_str().expect("a plain path");
    let mut command = contend(&["profile", "-q", "-o", file, "--"]);
    command.arg(&program);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let page = page(directory.path(), &["report", file]);
    let outcome = driven(browser, &page, &["--window-size=500,900"]);
    assert!(strings(&outcome["names"]).contains(&&*name), "{outcome}");
    assert!(outcome["keys"].as_array().is_some_and(|keys| !keys.is_empty()), "it was waited for: {outcome}");
    assert_eq!(outcome["clipped"], 0, "{outcome}");
    let [content, window] = [0, 1].map(|place| outcome["width"][place].as_u64());
    assert!(content <= window, "nothing is wider than a phone: {outcome}");
}

#[test]
fn names_that_are_markup_stay_text_in_a_browser() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let program = directory.path().join("hostile");
    let mut rename = Command::new("objcopy");
    rename.arg("--redefine-sym").arg(format!("index_lock={HOSTILE}")).arg("--strip-debug");
    rename.arg(Source::program("injected.c").compile()).arg(&program);
    let outcome = run(rename, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let profile = profile(&program, directory.path());
    let outcome = driven(browser, &page(directory.path(), &["report", &profile]), &[]);
    assert_is_well_made(&outcome);
    assert!(strings(&outcome["names"]).contains(&HOSTILE), "{outcome}");
    assert_eq!(outcome["markup"], serde_json::json!([]));
    assert!(outcome["title"].as_str().is_some_and(|title| title.starts_with("Locks of ")), "{outcome}");
}

#[test]
fn thousands_of_locks_are_drawn_in_parts() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let file = directory.path().join("p.contend");
    let mut command = contend(&["profile", "-q", "-o"]);
    command.arg(&file).arg("--").arg(Source::program("many.c").compile()).args(["1", "10000"]);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let page = page(directory.path(), &["report", "--unfold", file.to_str().expect("a plain path")]);
    assert!(data(&page)["rows"].as_array().is_some_and(|rows| rows.len() >= 10_000));
    let outcome = driven(browser, &page, &[]);
    assert_is_well_made(&outcome);
    assert_eq!([&outcome["first_part"], &outcome["two_parts"]], [200, 400], "{}", outcome["status"]);
    assert_eq!(outcome["more"], "Show 200 more");
}

#[test]
fn differences_and_predictions_are_pages_too() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let profile = profile(&Source::program("injected.c").compile(), directory.path());
    let grown = page(directory.path(), &["diff", &profile, &profile]);
    let outcome = driven(browser, &grown, &[]);
    assert_is_well_made(&outcome);
    let histograms = &outcome["unfolded"]["histograms"];
    for when in [", before: ", ", after: "] {
        assert!(strings(histograms).iter().any(|label| label.contains(when)), "{outcome}");
    }

    // On a machine at work two threads take turns, and nothing can be predicted from that.
    let profile = predictable(directory.path());
    let predicted = page(directory.path(), &forecast(&profile));
    let outcome = driven(browser, &predicted, &[]);
    assert_is_well_made(&outcome);
    if has_sliders(&predicted) {
        assert_eq!(outcome["what_if"]["shown"], true, "WebAssembly runs by the page's policy: {outcome}");
    }
    let shown = |axis: &str| serde_json::json!([[format!("scroll {axis}"), true]]);
    assert_eq!(outcome["pictures"], serde_json::json!([shown("linear"), shown("logarithmic")]));
    assert!(outcome["values"].as_u64().is_some_and(|rows| rows > 3), "{outcome}");
}

/// Whether the page has sliders. A build has them where Rust's target for WebAssembly is installed.
fn has_sliders(page: &Path) -> bool {
    let has = fs::read_to_string(page).expect("the page").contains("application/wasm");
    if !has {
        println!("skipped: built without sliders (rustup target add wasm32-unknown-unknown)");
    }
    has
}

/// What the sliders of the page ask from.
fn sliders(page: &Path) -> Value {
    let text = fs::read_to_string(page).expect("the page");
    let (_, section) = text.split_once("<section class=\"what-if\"").expect("sliders");
    let (_, json) = section.split_once("<script type=\"application/json\">").expect("what they ask from");
    serde_json::from_str(json.split_once("</script>").expect("an end").0).expect("JSON")
}

/// What the crate of the module answers, compiled for this machine.
fn answered(sliders: &Value, cores: u32, change: &str) -> Value {
    let question = serde_json::json!({ "sliders": sliders, "cores": cores, "change": change });
    let question: what_if::Question = serde_json::from_value(question).expect("a question");
    serde_json::to_value(question.answer().expect("an answer")).expect("JSON")
}

#[test]
fn the_sliders_of_a_page_answer_as_the_crate_of_their_module_does_to_the_last_digit() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let profile = predictable(directory.path());
    let page = page(directory.path(), &forecast(&profile));
    if !has_sliders(&page) {
        return;
    }
    let outcome =
        driven(browser, &page, &["--window-size=500,900", "--blink-settings=preferredColorScheme=0"]);
    assert_is_well_made(&outcome);
    let [content, window] = [0, 1].map(|place| outcome["width"][place].as_u64());
    assert!(content <= window, "nothing is wider than a phone: {}", outcome["width"]);

    let what_if = &outcome["what_if"];
    let answers = what_if["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 18);
    assert_eq!(outcome["in_plot"], 1, "one plot holds all: {outcome}");
    let sliders = sliders(&page);
    let curves = |answer: &Value| answer["lines"][0].as_u64().expect("a picture");
    let unchanged = curves(&answers[0]);
    assert!(
        answers[2..].iter().all(|answer| curves(answer) == unchanged + 1),
        "the changed one is beside them: {what_if}"
    );
    for (number, answer) in answers.iter().enumerate() {
        let flags = answer["flags"].as_str().expect("flags");
        let change = flags.strip_prefix("--what-if ").unwrap_or("");
        let expected = answered(&sliders, [4, 8][number % 2], change);
        assert_eq!(
            (number < 2, &answer["instruction"]),
            (change.is_empty(), &expected["instruction"]),
            "{flags}"
        );
        for part in ["rows", "values"] {
            let shown = answer[part].as_array().expect("rows");
            assert_eq!(&shown[1..], expected[part].as_array().expect("rows"), "{flags}: {part}");
        }
    }

    let wrong = what_if["wrong"]["instruction"].as_str().expect("text");
    assert!(wrong.contains("section takes a number from 0.01 to 1"), "{wrong}");
    assert_eq!(what_if["wrong"]["warned"], true);
    assert_eq!(what_if["slid"], serde_json::json!(["2", "2", "--what-if split=2"]));
    assert_eq!(what_if["back"], serde_json::json!(["1", ""]));
}

#[test]
fn a_browser_without_webassembly_shows_the_page_without_sliders() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let profile = predictable(directory.path());
    let path = page(directory.path(), &forecast(&profile));
    let with = fs::read_to_string(&path).expect("the page");
    fs::write(&path, with.replace(" 'wasm-unsafe-eval'", "")).expect("the page");
    let outcome = driven(browser, &path, &[]);
    assert_eq!(outcome["what_if"]["shown"], false, "{outcome}");
    if has_sliders(&path) {
        let why = outcome["what_if"]["why"].as_str().expect("it says why");
        assert!(why.contains("no WebAssembly") && why.contains("--what-if"), "{why}");
    }
    assert!(outcome["values"].as_u64().is_some_and(|rows| rows > 3), "{outcome}");
}
