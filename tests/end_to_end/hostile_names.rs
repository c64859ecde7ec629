//! Names come from the profiled program, which may mean harm.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::folded::Folded;
use super::prof::{folded, folder, may_record, record};
use super::programs;
use super::svg::{draw, total};

/// What stands in the built program, and what is put over it.
const NAMES: &[(&str, &str)] = &[
    ("evil_markup_of_thirty_two_bytes_", "evil<script>alert(1)</script>&\"'"),
    ("evil_frame", "evil;frame"),
    ("evil_escapes", "evil\x1b[31mred"),
    ("evil_17", "evil 17"),
    ("Hevil", "#evil"),
    ("_evil_", " evil "),
    ("evil_cd", "evil]]>"),
];

/// The program with the names that no assembler would write, in its symbol table and its debug information.
fn hostile(folder: &Path) -> Option<PathBuf> {
    let decent = programs::c("hostile")?;
    let mut bytes = std::fs::read(&decent).unwrap();
    for (decent, hostile) in NAMES {
        assert_eq!(decent.len(), hostile.len());
        let places: Vec<usize> = bytes
            .windows(decent.len() + 1)
            .enumerate()
            .filter(|(_, window)| window[..decent.len()] == *decent.as_bytes() && window[decent.len()] == 0)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "{decent} is not in the program");
        for at in places {
            bytes[at..at + hostile.len()].copy_from_slice(hostile.as_bytes());
        }
    }
    let program = folder.join("hostile");
    std::fs::copy(decent, &program).unwrap();
    std::fs::write(&program, bytes).unwrap();
    Some(program)
}

#[test]
fn names_with_markup_and_separators_stay_names() {
    let folder = folder();
    let Some(program) = hostile(folder.path()) else { return };
    if !may_record() {
        return;
    }
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("400")]);
    let summary = run.ok().stderr;
    assert!(!summary.contains('\x1b'), "{summary:?}");
    let flame = folded(&file, &[]).ok();
    let text = flame.text();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "control characters: {text:?}");
    let stacks = Folded::parse(text);
    assert_eq!(stacks.total(), super::prof::figure(&summary, "samples"));
    // Each of the names is one frame below main: a separator in it does not make two.
    let below_main = stacks.count(|stack| {
        let main = stack.iter().position(|frame| frame == "main");
        main.is_some_and(|at| stack.get(at + 1).is_some_and(|name| name.contains("evil")))
    });
    assert!(below_main * 10 >= stacks.total() * 9, "{below_main} of {}:\n{text}", stacks.total());
    // The space before a number is no plain one: behind it stands the count.
    assert!(!text.contains("evil 17;") && !text.contains("evil 17 "), "{text}");
    for name in ["evil<script>alert(1)</script>&\"'", "evil:frame", "evil]]>"] {
        assert!(text.contains(name), "no {name:?} in\n{text}");
    }

    let svg = draw(&file, &[]);
    assert_eq!(total(&svg), stacks.total());
    assert!(!svg.contains("<script>alert"), "markup got through");
    assert!(!svg.contains('\x1b'));
}
