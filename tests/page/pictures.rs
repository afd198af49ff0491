//! Pictures of the pages as wide as a desk's screen and a phone's, light and dark, and what axe-core finds in them.

use super::all::are_all;
use super::{
    HANG, Source, assert_is_well_made, chromium, contend, driven, dumped, has_sliders, outcome_of, page,
    predictable, profile, run, strings, which, with_driver,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A desk's screen and a phone's, by width, and what Chromium calls the colours that a reader prefers: each of the four, or one for each
/// width and each colour.
fn screens() -> &'static [(&'static str, &'static str, &'static str)] {
    const ALL: [(&str, &str, &str); 4] =
        [("1280", "light", "1"), ("390", "dark", "0"), ("1280", "dark", "0"), ("390", "light", "1")];
    if are_all() { &ALL } else { &ALL[..2] }
}

/// The pages that are looked at, under their names: a small program's locks, the longest waits of another one, what is predicted of one of
/// them, a comparison and a figure.
fn pages(directory: &Path) -> Vec<(&'static str, PathBuf)> {
    let recorded = profile(&Source::program("injected.c").compile(), directory);
    let named = |name: &'static str, arguments: &[&str]| {
        let kept = directory.join(format!("{name}.html"));
        fs::rename(page(directory, arguments), &kept).expect("a page");
        (name, kept)
    };
    let mut pages = vec![named("report", &["report", &recorded])];
    let waits = directory.join("waits.contend");
    let mut command = contend(&["profile", "-q", "--timeline", "-o"]);
    command.arg(&waits).arg("--").arg(Source::program("slow_holder.c").compile());
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    pages.push(named("waits", &["report", waits.to_str().expect("a plain path")]));
    let compared = directory.join("compare.html");
    let mut command = contend(&["compare", "--runs", "5", "--lock", "mcs,ticket", "--html"]);
    command.arg(&compared).arg("--").arg(Source::program("injected.c").compile()).args(["2", "2000"]);
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    pages.push(("compare", compared));
    let alone = predictable(directory);
    pages.push(named("predict", &["predict", &alone, "--site", "hot_lock", "--cores", "1,2,4"]));
    if cfg!(feature = "full") {
        let figures = directory.join("figures");
        let mut command = contend(&["reproduce", "fig9", "--html"]);
        command.arg(&figures);
        let outcome = run(command, HANG);
        assert!(outcome.succeeded(), "{outcome}");
        pages.push(("reproduce", figures.join("fig9.html")));
    }
    pages
}

/// What a page's script says on a screen so wide and of these colours. The page is in a frame, since no window of Chromium is as narrow as
/// a phone.
fn said(browser: &str, page: &Path, width: &str, colour: &str) -> serde_json::Value {
    const FRAME: &str = "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><body><script>\
         addEventListener('message', ({ data }) => { \
         const pre = document.body.appendChild(document.createElement('pre')); pre.id = 'outcome'; pre.textContent = data; });\
         </script>";
    let name = page.file_name().and_then(|name| name.to_str()).expect("a plain name");
    let frame = page.with_extension("frame.html");
    let style = format!("width:{width}px;height:1600px;border:0");
    fs::write(&frame, format!("{FRAME}<iframe src=\"{name}\" style=\"{style}\"></iframe>")).expect("a frame");
    let colour = preferring(colour);
    outcome_of(&dumped(browser, &frame, &["--window-size=1400,1700", &colour, "--virtual-time-budget=20000"]))
}

fn preferring(colour: &str) -> String {
    format!("--blink-settings=preferredColorScheme={colour}")
}

#[test]
fn pages_are_whole_on_desks_and_phones_light_and_dark() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&kept).expect("a place for pictures");
    for (name, page) in pages(directory.path()) {
        for &(width, colours, colour) in screens() {
            let outcome = said(browser, &with_driver(&page), width, colour);
            let which = format!("{name} at {width}, {colours}: {outcome}");
            assert_is_well_made(&outcome);
            assert_eq!(outcome["dark"], colours == "dark", "{which}");
            assert_eq!(outcome["width"][1].to_string(), width, "{which}");
            assert!(outcome["width"][0].as_u64() <= outcome["width"][1].as_u64(), "{which}");
            assert_eq!(outcome["scrolled"], 0, "a picture fits: {which}");
            assert!(
                outcome["letters"].as_f64().is_some_and(|size| size >= 10.0),
                "letters are read: {which}"
            );
            assert_eq!(outcome["clipped"], 0, "a legend is seen whole: {which}");
            assert_eq!(
                outcome["broken"],
                serde_json::json!([]),
                "names break behind `::` and `/` alone: {which}"
            );
            assert_eq!(outcome["cut"], 0, "a table is seen whole: {which}");
            let picture = kept.join(format!("{name}-{width}-{colours}.png"));
            let screenshot = format!("--screenshot={}", picture.display());
            let size = format!("--window-size={width},1600");
            dumped(browser, &page, &[&size, &preferring(colour), "--hide-scrollbars", &screenshot]);
            let bytes = fs::read(&picture).expect("a picture");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{which}");
            let [wide, _] = [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()));
            assert_eq!(wide.to_string(), width, "{which}");
        }
    }
    println!("pictures are in {}", kept.display());
}

#[test]
fn what_is_asked_for_first_stands_first() {
    let Some(browser) = chromium() else { return };
    let directory = tempfile::tempdir().expect("a place");
    let pages = pages(directory.path());
    let wide = ["--window-size=1280,1600"];
    let of = |wanted: &str| pages.iter().find(|(name, _)| *name == wanted).map(|(_, page)| page.as_path());

    let report = driven(browser, of("report").expect("a page"), &wide);
    let first = strings(&report["leading"]);
    assert_eq!(first[0], "p", "a sentence: {report}");
    let waited = report["keys"].as_array().is_some_and(|keys| !keys.is_empty());
    assert!(!waited || first[1] == "bars", "and a picture: {report}");

    let waits = fs::read_to_string(of("waits").expect("a page")).expect("the page");
    let longest = waits.split_once("The longest waits").expect("they were kept").1;
    assert!(longest.contains(" in quick_lookup (slow_holder.c:"), "{longest}");
    assert!(longest.contains(" in slow_rebalance (slow_holder.c:"), "{longest}");

    let path = of("predict").expect("a page");
    let predict = driven(browser, path, &wide);
    assert_eq!(strings(&predict["leading"])[0], "plot", "{predict}");
    let bold = strings(&predict["bold"]);
    assert!(bold.len() == 1 && bold[0].starts_with("as it is"), "{predict}");
    assert!(predict["keys"][0].as_u64().is_some_and(|curves| (2..=4).contains(&curves)), "{predict}");
    if has_sliders(path) {
        assert_eq!(
            predict["in_plot"], 1,
            "the sliders move a curve of the plot, not of a second figure: {predict}"
        );
        assert_eq!((&predict["beside"], &predict["live"]), (&true.into(), &"polite".into()), "{predict}");
        // The quickest of five: what else the machine does is not the page's.
        assert!(predict["milliseconds"].as_f64().is_some_and(|ms| ms < 50.0), "{predict}");
    }
    if let Some(path) = of("reproduce") {
        let reproduce = driven(browser, path, &wide);
        assert_eq!(strings(&reproduce["leading"]), ["plot", "p", "scroll"], "{reproduce}");
    }
}

/// axe-core, where `AXE_CORE` names its file or npm has it: its global packages, or those of this folder.
fn axe() -> Option<PathBuf> {
    const FILE: &str = "axe-core/axe.min.js";
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/node_modules");
    let global = which("npm").and_then(|npm| {
        let mut command = Command::new(npm);
        command.args(["root", "--global"]);
        let outcome = run(command, HANG);
        outcome.succeeded().then(|| PathBuf::from(outcome.stdout.trim()))
    });
    let named = std::env::var_os("AXE_CORE").map(PathBuf::from);
    let installed = [Some(here), global].into_iter().flatten().map(|folder| folder.join(FILE));
    let found = named.into_iter().chain(installed).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("left out: axe-core is not installed (npm install --prefix tests/page --no-save axe-core)");
    }
    found
}

/// A copy of the page in which axe-core looks at it, with a row unfolded.
fn with_axe(page: &Path, axe: &str) -> PathBuf {
    const ASK: &str = "document.querySelector('tbody th > button')?.click(); axe.run(document).then(({ violations, passes }) => { \
         const found = violations.map(({ id, help, nodes }) => [id, help, nodes.slice(0, 3).map(({ html }) => html)]); \
         parent.postMessage(JSON.stringify([passes.length, found]).replace(/[<>&\\u00a0]/g, ' '), '*'); });";
    let text = fs::read_to_string(page).expect("the page");
    let (before, policy) = text.split_once("<meta http-equiv=\"Content-Security-Policy\"").expect("a policy");
    let (_, after) = policy.split_once('>').expect("its end");
    let (head, tail) = after.rsplit_once("</body>").expect("a body");
    let copy = page.with_extension("axe.html");
    let axe = axe.replace("</script", "<\\/script");
    fs::write(&copy, format!("{before}{head}<script>{axe}</script><script>{ASK}</script></body>{tail}"))
        .expect("the copy");
    copy
}

#[test]
fn axe_finds_nothing() {
    let (Some(browser), Some(axe)) = (chromium(), axe()) else { return };
    let axe = fs::read_to_string(axe).expect("axe-core");
    let directory = tempfile::tempdir().expect("a place");
    for (name, page) in pages(directory.path()) {
        for &(width, colours, colour) in screens() {
            let found = said(browser, &with_axe(&page, &axe), width, colour);
            assert!(found[0].as_u64().is_some_and(|passes| passes > 15), "it looked: {found}");
            assert_eq!(found[1], serde_json::json!([]), "{name} at {width}, {colours}");
        }
    }
}
