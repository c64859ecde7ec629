//! `prof annotate`: instructions as objdump has them, with the samples that were taken at them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::folded::{Folded, plain};
use crate::prof::{folder, prof, run};
use crate::programs::{self, has};

/// Records `shares.c`, and says where the recording and the program are.
fn recorded(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let program = programs::c("shares")?;
    let file = folder.join("prof.data");
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-F", "2999", "-o"]);
    record.arg(&file).arg("--").arg(&program).args(["alone", "200"]);
    run(&mut record).ok();
    Some((file, program))
}

fn annotated(file: &Path, function: &str) -> Value {
    let listing = run(prof(["annotate", "--json", function, "-i"]).arg(file)).ok();
    serde_json::from_str(listing.text()).unwrap()
}

#[test]
fn every_sample_of_a_function_is_at_an_instruction() {
    let folder = folder();
    let Some((file, _)) = recorded(folder.path()) else { return };
    let folded = run(prof(["flame", "--folded", "-i"]).arg(&file)).ok();
    let folded = Folded::parse(folded.text());
    for function in ["sixty", "thirty", "ten"] {
        let listing = annotated(&file, function);
        let range = &listing["functions"][0]["ranges"][0];
        assert_eq!(range["elsewhere"], 0, "{function}");
        let instructions = range["instructions"].as_array().unwrap();
        let sum: u64 = instructions.iter().map(|one| one["weight"].as_u64().unwrap()).sum();
        let own = folded.count(|stack| plain(stack.last().unwrap()) == function);
        assert_eq!(sum, own, "{function}");
        assert_eq!(listing["total"].as_u64().unwrap(), folded.total());
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn filters_choose_samples_and_callers_take_what_is_hidden() {
    let folder = folder();
    let Some((file, _)) = recorded(folder.path()) else { return };
    let weight = |flags: &[&str], function: &str| -> u64 {
        let listing = run(prof(["annotate", "--json", function, "-i"]).arg(&file).args(flags)).ok();
        let listing: Value = serde_json::from_str(listing.text()).unwrap();
        let ranges = listing["functions"][0]["ranges"].as_array().unwrap();
        assert!(ranges.iter().all(|range| range["elsewhere"] == 0), "{listing}");
        ranges.iter().map(|range| range["weight"].as_u64().unwrap()).sum()
    };
    let sixty = weight(&[], "sixty");
    assert_eq!(weight(&["--keep", "sixty"], "sixty"), sixty);
    let none = run(prof(["annotate", "sixty", "--keep", "thirty", "-i"]).arg(&file));
    assert!(none.code == 1 && none.stderr.contains("no sample was taken"), "{}", none.stderr);
    let folded = run(prof(["flame", "--folded", "--hide", "sixty", "-i"]).arg(&file)).ok();
    let folded = Folded::parse(folded.text());
    let caller =
        folded.stacks.keys().filter(|stack| stack.len() > 1).map(|stack| plain(stack.last().unwrap()));
    let caller =
        caller.max_by_key(|name| folded.count(|stack| plain(stack.last().unwrap()) == *name)).unwrap();
    let of_caller = folded.count(|stack| plain(stack.last().unwrap()) == caller);
    assert_eq!(weight(&["--hide", "sixty"], caller), of_caller, "{caller}");
}

/// Mnemonics by address, of one function.
fn disassembled(program: &Path, function: &str) -> BTreeMap<u64, String> {
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "--no-show-raw-insn", &format!("--disassemble={function}")]).arg(program);
    let text = run(&mut objdump).ok();
    let instructions = text.text().lines().filter_map(|line| {
        let (address, text) = line.trim().split_once(":\t")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some((address, text.split_whitespace().next()?.to_owned()))
    });
    instructions.collect()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn instructions_are_those_of_objdump() {
    let folder = folder();
    let (true, Some((file, program))) = (has("objdump"), recorded(folder.path())) else { return };
    for function in ["sixty", "ten"] {
        let listing = annotated(&file, function);
        let instructions = &listing["functions"][0]["ranges"][0]["instructions"];
        let ours: BTreeMap<u64, String> = instructions
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let text = one["text"].as_str().unwrap();
                (one["address"].as_u64().unwrap(), text.split(' ').next().unwrap().to_owned())
            })
            .collect();
        assert_eq!(ours, disassembled(&program, function), "{function}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_listing_shows_lines_and_loops_and_offers_names() {
    let folder = folder();
    let Some((file, _)) = recorded(folder.path()) else { return };
    let listing = run(prof(["annotate", "sixty", "-i"]).arg(&file)).ok();
    assert!(listing.text().contains("hot loop"), "{}", listing.text());
    assert!(listing.text().contains("shares.c:"), "{}", listing.text());
    assert!(listing.text().contains("SPIN(sixty)"), "the source line: {}", listing.text());
    assert!(listing.text().contains("(%rbp)") && !listing.text().contains(",)"), "{}", listing.text());
    let hottest = run(prof(["annotate", "--hottest", "2", "-i"]).arg(&file)).ok();
    assert!(hottest.text().starts_with("sixty: "), "{}", hottest.text());
    let without_flag = run(prof(["annotate", "--hottest", "2"]).arg(&file)).ok();
    assert_eq!(without_flag.text(), hottest.text());
    let two_files = run(prof(["annotate", "--hottest", "2", "sixty", "-i"]).arg(&file));
    assert!(two_files.code == 1 && two_files.stderr.contains("two recordings"), "{}", two_files.stderr);
    let wrong = run(prof(["annotate", "sixti", "-i"]).arg(&file));
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.contains("nearest: `sixty`") && wrong.stderr.contains("most were taken"),
        "{}",
        wrong.stderr
    );
    let unlike = run(prof(["annotate", "?", "-i"]).arg(&file));
    assert!(!unlike.stderr.contains("nearest") && unlike.stderr.contains("`sixty`"), "{}", unlike.stderr);
}
