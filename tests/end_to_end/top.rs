//! The live view, in a real terminal and for scripts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::folded::Folded;
use super::prof::{RECORDERS, folded, folder, may_record, prof, run, run_alone};
use super::tmux::Terminal;
use super::{perf, programs};

/// A program that runs as long as it is looked at.
struct Load(Child);

impl Load {
    fn start(program: &Path) -> Self {
        Self::of(Command::new(program))
    }

    fn of(mut command: Command) -> Self {
        Self(command.args(["alone", "600000"]).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the live view of a load and waits for its first function.
fn watch(terminal: &Terminal, environment: &str, load: &Load, flags: &str) -> String {
    let prof = env!("CARGO_BIN_EXE_prof");
    terminal.line(&format!(
        "clear; {environment} {prof} top -e cpu-clock -p {} --delay-secs 0.2 {flags}; echo left $?",
        load.pid()
    ));
    terminal.wait("function", |screen| screen.contains("sixty"))
}

/// The first (self) or second (total) share in the row of a function, in per cent.
fn share(screen: &str, function: &str, column: usize) -> Option<f64> {
    let row = screen.lines().find(|line| line.trim_end().ends_with(function))?;
    row.split('%').nth(column)?.trim().parse().ok()
}

#[test]
fn known_shares_on_the_screen_and_for_scripts() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    // Its shares are sure after many samples.
    let load = Load::of(Command::new(program));
    // The same seconds, recorded beside.
    let data = folder.path().join("prof.data");
    let in_company = RECORDERS.read();
    let both = ["-e", "cpu-clock", "-F", "4999", "-p", &load.pid()];
    let mut record = prof(["record", "-q", "-d", "1.6"]);
    let record = record.args(both).arg("-o");
    let mut record = record.arg(&data).stderr(Stdio::null()).spawn().unwrap();
    let top = run_alone(prof(["top", "--json", "--delay-secs", "1.2"]).args(both));
    assert!(record.wait().unwrap().success());
    drop(in_company);
    let top = top.ok();
    assert_eq!(top.text().lines().count(), 1, "{}", top.text());
    let value: serde_json::Value = serde_json::from_str(top.text()).unwrap();
    assert_eq!(value["schema"], "prof-top-2");
    let event = &value["events"][0];
    let of = |name: &str| {
        let functions = event["rows"].as_array().unwrap();
        let row = functions.iter().find(|row| row["function"] == name);
        row.unwrap_or_else(|| panic!("no {name} in {}", top.text()))["self_percent"].as_f64().unwrap()
    };
    let file = Folded::parse(folded(&data, &[]).ok().text());
    let recorded = |name: &str| 100.0 * file.with(name) as f64 / file.total() as f64;
    let theirs = perf::is_here().then(|| {
        let fields = ["report", "-f", "--stdio", "--no-children", "-g", "none", "-F", "overhead,sym", "-i"];
        run(perf::perf(folder.path()).args(fields).arg(&data)).ok().text().to_owned()
    });
    let samples = value["samples"].as_f64().unwrap();
    for (name, share) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        // Five standard deviations, of the fewer samples that a loaded machine leaves us.
        let tolerance = 500.0 * (share / 100.0 * (1.0 - share / 100.0) / samples).sqrt() + 2.0;
        let near = |seen: f64, who: &str| {
            assert!((seen - share).abs() < tolerance, "{who}: {name} has {seen} %, of {samples} samples");
        };
        near(of(name), "prof top");
        near(recorded(name), "prof record");
        if let Some(report) = &theirs {
            let row = report.lines().find(|line| line.trim_end().ends_with(name)).unwrap();
            near(row.split('%').next().unwrap().trim().parse().unwrap(), "perf report");
        }
    }

    let Some(terminal) = Terminal::open("shares", (120, 30), folder.path()) else { return };
    let _in_company = RECORDERS.read();
    let first = watch(&terminal, "", &load, "");
    // The first screen may be of few samples; so much is sure after some more.
    let is_so = |screen: &str| {
        let of = |name| share(screen, name, 0).unwrap_or(0.0);
        (of("sixty") - 60.0).abs() < 6.0
            && (of("thirty") - 30.0).abs() < 6.0
            && (of("ten") - 10.0).abs() < 6.0
    };
    terminal.wait(&format!("known shares (first {first})"), is_so);
    terminal.press(&["q"], "left 0");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_way_out_gives_the_terminal_back() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("ways", (80, 24), folder.path()) else { return };
    let load = Load::start(&program);
    let _in_company = RECORDERS.read();
    let before = terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}");
    let is_ours = |terminal: &Terminal| {
        assert_eq!(terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), "1 1 0");
    };
    terminal.line("stty -a > before");
    let pid = |name: &str| {
        let list = format!("/proc/{}/task/{}/children", shell(&terminal), shell(&terminal));
        let children = std::fs::read_to_string(list).unwrap();
        children.split_whitespace().next_back().unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let signals = [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131), ("BUS", 135), ("USR1", 138)];
    for (way, code) in [("q", 0), ("C-c", 0), ("ABRT", 134)].into_iter().chain(signals) {
        watch(&terminal, "", &load, "");
        is_ours(&terminal);
        if way.len() > 1 && !way.contains('-') {
            let sent = Command::new("kill").args([&format!("-{way}"), &pid("prof")]).status().unwrap();
            assert!(sent.success());
        } else {
            terminal.keys(&[way]);
        }
        terminal.wait(way, |screen| screen.contains(&format!("left {code}")));
        terminal.line("stty -a > after; echo compared $?");
        terminal.wait("comparison", |screen| screen.contains("compared 0"));
        assert_eq!(terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), before, "{way}");
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("after"), read("before"), "{way}");
    }
    // Stopped without a chance to give it back, the shell sets the terminal up itself; continued, it is ours again.
    terminal.line("set -m");
    watch(&terminal, "", &load, "");
    let stopped = pid("prof");
    assert!(Command::new("kill").args(["-STOP", &stopped]).status().unwrap().success());
    let state = || std::fs::read_to_string(format!("/proc/{stopped}/stat")).unwrap_or_default();
    while !state().contains(") T ") {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The keys are as we left them: there is nobody to make a line end of Enter.
    terminal.text("stty sane; clear; echo sane $?");
    terminal.keys(&["C-j"]);
    // What is typed before that has run, has no end either.
    terminal.wait("prompt", |screen| screen.contains("sane 0") && !screen.contains("1 functions"));
    terminal.line("fg");
    terminal.wait("function", |screen| screen.contains("sixty") && screen.contains("1 functions"));
    is_ours(&terminal);
    terminal.keys(&["q"]);
    terminal.wait("prompt", |screen| !screen.contains("1 functions"));
    assert_eq!(terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), before);
    terminal.line("stty -a > after; echo compared $?");
    terminal.wait("comparison", |screen| screen.contains("compared 0"));
    // Stopped by a key, the shell has the terminal; continued, it is ours again.
    watch(&terminal, "", &load, "");
    terminal.press(&["C-z"], "topped");
    assert_eq!(terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), before);
    terminal.line("fg");
    terminal.wait("function", |screen| screen.contains("sixty") && screen.contains("1 functions"));
    is_ours(&terminal);
    terminal.keys(&["q"]);
    terminal.wait("prompt", |screen| !screen.contains("1 functions"));
    assert_eq!(terminal.state("#{alternate_on} #{mouse_any_flag} #{cursor_flag}"), before);
}

/// The shell in the terminal.
fn shell(terminal: &Terminal) -> String {
    terminal.state("#{pane_pid}")
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_view_ends_when_its_terminal_is_gone() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("gone", (80, 24), folder.path()) else { return };
    let load = Load::start(&program);
    let _in_company = RECORDERS.read();
    // In a session of its own it hears of no hang-up.
    let prof = env!("CARGO_BIN_EXE_prof");
    let view = format!("echo $$ > pid; exec {prof} top -e cpu-clock -p {} --delay-secs 600", load.pid());
    terminal.line(&format!("clear; setsid sh -c '{view}'"));
    terminal.wait("function", |screen| screen.contains("sixty"));
    drop(terminal);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let view = Path::new("/proc").join(pid.trim());
    let begin = Instant::now();
    while view.exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it reads on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_is_terminated_with_the_view() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("command", (100, 24), folder.path()) else { return };
    let prof = env!("CARGO_BIN_EXE_prof");
    let script = folder.path().join("load.sh");
    std::fs::write(&script, format!("echo $$ > pid; exec {} alone 600000\n", program.display())).unwrap();
    let _in_company = RECORDERS.read();
    terminal.line(&format!("{prof} top -e cpu-clock -- sh load.sh; echo left $?"));
    terminal.wait("function", |screen| screen.contains("sixty"));
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    terminal.press(&["q"], "left 0");
    let start = std::time::Instant::now();
    let lives = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        state.contains("(shares)") && !state.contains(") Z")
    };
    while lives() {
        assert!(start.elapsed().as_secs() < 60, "the command goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn keys_do_what_the_help_says() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("keys", (120, 30), folder.path()) else { return };
    let load = Load::start(&program);
    let _in_company = RECORDERS.read();
    watch(&terminal, "", &load, "");
    terminal.press(&["?"], "draw the screen anew");
    terminal.press(&["?"], "self▼");
    terminal.press(&["2"], "shares");
    terminal.press(&["1"], "self▼");
    terminal.press(&["s"], "total▼");
    terminal.press(&["s", "s", "s"], "self▼");
    terminal.press(&["f"], "frozen");
    terminal.keys(&["f"]);
    terminal.wait("no longer frozen", |screen| !screen.contains("frozen"));
    terminal.press(&["Space"], "PAUSED");
    terminal.keys(&["Space"]);
    terminal.wait("no longer paused", |screen| !screen.contains("PAUSED"));
    terminal.press(&["w"], "since start");
    terminal.press(&["w"], "last ");
    // Both sides cannot be hidden: the other one comes back.
    terminal.press(&["k"], "no kernel");
    terminal.press(&["u"], "no user");
    terminal.keys(&["u"]);
    terminal.wait("both sides", |screen| {
        !screen.contains("no user") && !screen.contains("no kernel") && screen.contains("sixty")
    });
    terminal.press(&["e"], "only one event");
    // A fuzzy filter, while it is typed and after; by each of its fields.
    for (filter, shown, hidden) in
        [("thrty", "thirty", "sixty"), ("func:ten", " ten", "sixty"), ("mod:shrs", "sixty", "libc")]
    {
        terminal.keys(&["/"]);
        terminal.text(filter);
        terminal.wait(filter, |screen| {
            screen.contains(shown) && !screen.lines().skip(3).any(|line| line.trim_end().ends_with(hidden))
        });
        terminal.press(&["Enter"], &format!("/{filter}"));
        terminal.keys(&["Escape"]);
        terminal.wait("no filter", |screen| !screen.contains(&format!("/{filter}")));
    }
    terminal.keys(&["/"]);
    terminal.text("pid:1");
    terminal.wait("nothing of another process", |screen| !screen.contains("sixty"));
    terminal.keys(&["Escape"]);
    terminal.wait("all again", |screen| screen.contains("sixty"));
    // Callers of the selected function; the hot path opens by itself.
    terminal.keys(&["Home"]);
    terminal.press(&["3"], "main");
    terminal.press(&["4"], "all");
    terminal.wait("flame graph", |screen| screen.contains("main") && screen.contains("sixty"));
    terminal.keys(&["Up", "Up", "Enter"]);
    terminal.wait("flame graph, zoomed", |screen| screen.contains("main"));
    terminal.keys(&["Escape"]);
    terminal.press(&["Tab"], "self▼");
    // A click (xterm's mode 1006) on the title of the second view.
    let title = terminal.screen().lines().position(|line| line.contains("2 processes")).unwrap() + 1;
    let column = terminal.screen().lines().nth(title - 1).unwrap().find("processes").unwrap() + 1;
    terminal.text(&format!("\x1b[<0;{column};{title}M\x1b[<0;{column};{title}m"));
    terminal.wait("processes", |screen| screen.contains(&load.pid()));
    terminal.keys(&["1", "z"]);
    terminal.wait("samples after the reset", |screen| screen.contains("sixty"));
    // Every size.
    for size in [(80, 24), (300, 80), (40, 10), (120, 30)] {
        terminal.resize(size);
        terminal.keys(&["C-l"]);
        terminal.wait("function", |screen| screen.contains("sixty") && screen.contains("prof top"));
    }
    terminal.press(&["q"], "left 0");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn keys_that_move_and_what_the_mouse_does() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("moves", (120, 30), folder.path()) else { return };
    let load = Load::start(&program);
    let _in_company = RECORDERS.read();
    watch(&terminal, "", &load, "");
    // By name, and without the kernel's, rows keep their places: what is on the stacks ends with `thirty` and `work`.
    terminal.press(&["k"], "no kernel");
    terminal.press(&["s", "s"], "function▼");
    terminal.wait("names", |screen| {
        screen.trim_end().lines().any(|line| line.trim_end().ends_with(" work")) && screen.contains("thirty")
    });
    terminal.keys(&["End"]);
    terminal.press(&["3"], "● work");
    terminal.keys(&["1", "Up"]);
    terminal.press(&["3"], "● thirty");
    terminal.keys(&["1", "PPage"]);
    terminal.keys(&["3"]);
    terminal.wait("the first function", |screen| screen.contains('●') && !screen.contains("● thirty"));
    terminal.keys(&["1", "NPage"]);
    terminal.press(&["3"], "● work");
    terminal.keys(&["1", "Home"]);
    terminal.keys(&["3"]);
    terminal.wait("the first function", |screen| screen.contains('●') && !screen.contains("● work"));
    // Back to what was looked at before, by its caller.
    terminal.keys(&["1", "End", "Up"]);
    terminal.press(&["3"], "● thirty");
    terminal.keys(&["Up"]);
    terminal.press(&["Enter"], "● work");
    terminal.press(&["Escape"], "● thirty");
    // Its caller's row is closed and opened.
    terminal.wait("callers", |screen| screen.contains(" main "));
    terminal.keys(&["Up", "Left"]);
    terminal
        .wait("no callers beyond the first", |screen| !screen.contains(" main ") && screen.contains("work"));
    terminal.press(&["Right"], " main ");

    // Only this process, and back.
    terminal.keys(&["2"]);
    terminal.wait("processes", |screen| screen.contains("pid/tid") && screen.contains(&load.pid()));
    terminal.press(&["Enter"], &format!("only process {}", load.pid()));
    terminal.keys(&["Escape"]);
    terminal.wait("all processes", |screen| !screen.contains("only process"));
    // The view before the first is the last.
    terminal.press(&["BTab"], "all  (self");
    terminal.press(&["End"], "sixty  shares  (self");
    terminal.press(&["Right"], "ten  shares  (self");
    terminal.press(&["Left"], "sixty  shares  (self");
    terminal.press(&["Down"], "work  shares  (self");
    terminal.press(&["Home"], "all  (self");
    terminal.press(&["PPage"], "sixty  shares  (self");
    terminal.press(&["NPage"], "all  (self");
    // There are no idle CPUs in a process.
    terminal.press(&["i"], "all  (self");
    terminal.press(&["Tab"], "function▼");

    let click = |row: usize, column: usize| {
        terminal.text(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"));
    };
    let place = |text: &str| {
        let screen = terminal.screen();
        let row = screen.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{screen}"));
        let column = screen.lines().nth(row).unwrap().find(text).unwrap();
        (row + 1, column + 1)
    };
    // The row moves only if a function joins those before it: then another try.
    terminal.wait("a second click to zoom", |screen| {
        if screen.contains("● ten") {
            return true;
        }
        if screen.contains("● ") {
            terminal.keys(&["1"]);
        } else if let Some(row) = screen.lines().position(|line| line.trim_end().ends_with(" ten")) {
            click(row + 1, 5);
            click(row + 1, 5);
        }
        std::thread::sleep(Duration::from_millis(300));
        false
    });
    terminal.press(&["1"], "function▼");
    let (row, column) = place("total");
    click(row, column);
    terminal.wait("another order", |screen| screen.contains("total▼"));
    // The help scrolls, by keys and by the wheel.
    terminal.press(&["?"], "1 2 3 4");
    terminal.keys(&["Down"]);
    terminal.wait("the help's next line", |screen| !screen.contains("1 2 3 4"));
    terminal.press(&["Up"], "1 2 3 4");
    terminal.text("\x1b[<65;5;9M");
    terminal.wait("the help's next line", |screen| !screen.contains("1 2 3 4"));
    terminal.text("\x1b[<64;5;9M");
    terminal.wait("the help's first line", |screen| screen.contains("1 2 3 4"));
    terminal.press(&["q"], "total▼");
    terminal.press(&["q"], "left 0");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_colours_and_beyond_ascii() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("plain", (80, 24), folder.path()) else { return };
    let load = Load::start(&program);
    let _in_company = RECORDERS.read();
    watch(&terminal, "NO_COLOR=1 LC_ALL=C", &load, "");
    for view in ["1", "2", "3", "4"] {
        terminal.keys(&[view]);
        let marked = format!("{view} ");
        let screen = terminal.wait("view", |screen| screen.contains(&marked) && screen.contains("prof top"));
        assert!(screen.is_ascii(), "{screen}");
        // What sets no colour but the terminal's own is none.
        let coloured = terminal.coloured().replace("\x1b[39m", "").replace("\x1b[49m", "");
        assert!(!coloured.contains("\x1b[3") && !coloured.contains("\x1b[4"), "{coloured:?}");
    }
    terminal.press(&["q"], "left 0");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_terminal_that_cannot_move_its_cursor_is_left_alone() {
    let folder = folder();
    let Some(terminal) = Terminal::open("dumb", (160, 24), folder.path()) else { return };
    terminal.line(&format!("clear; TERM=dumb {} top; echo left $?", env!("CARGO_BIN_EXE_prof")));
    let screen = terminal.wait("the end", |screen| screen.contains("left 1"));
    assert!(screen.contains("TERM is dumb; try:") && screen.contains("prof top --once"), "{screen}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_shown_is_saved_as_a_picture() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(terminal) = Terminal::open("save", (120, 30), folder.path()) else { return };
    let load = Load::start(&program);
    let in_company = RECORDERS.read();
    watch(&terminal, "", &load, "");
    terminal.wait("many samples", |screen| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        let samples = words.windows(2).find(|pair| pair[1] == "samples").map(|pair| pair[0].replace(',', ""));
        samples.and_then(|samples| samples.parse::<u64>().ok()).is_some_and(|samples| samples > 300)
    });
    // Standing still, the file has the very numbers of the screen. Names go on to come: it must have them all.
    terminal.press(&["Space"], "PAUSED");
    let screen = terminal.wait("all names", |screen| screen.contains("PAUSED") && !screen.contains("naming"));
    for (name, answer) in [("shown.data", "pictures alone; try:"), ("shown.svg", "saved shown.svg")] {
        terminal.press(&["S"], "prof-top");
        terminal.text(name);
        terminal.press(&["Enter"], answer);
    }
    let screen_shares = ["sixty", "thirty", "ten"].map(|name| share(&screen, name, 1));
    terminal.press(&["q"], "left 0");
    drop(in_company);
    let picture = std::fs::read_to_string(folder.path().join("shown.svg")).unwrap();
    for (name, shown) in ["sixty", "thirty", "ten"].into_iter().zip(screen_shares) {
        let title = format!("<title>{name} (");
        let text = picture.split(&title).nth(1).and_then(|rest| rest.split_once("%)")).unwrap().0;
        let saved: f64 = text.rsplit(' ').next().unwrap().parse().unwrap();
        let off = (saved - shown.unwrap_or(0.0)).abs();
        assert!(off < 0.01, "{name}: {saved} % instead of {shown:?}\n{screen}\n{text}");
    }
    assert!(!folder.path().join("shown.data").exists());
}
