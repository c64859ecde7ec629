//! `cargo xtask pictures`: makes the pictures of README and the book in `docs/src/pictures`: the flame graph, the page and the live view of
//! the Rust compiler. Needs Chromium and tmux.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::workspace;

/// The program that is profiled.
const PROGRAM: &str = "rustc -O --emit=obj --out-dir TARGET fixtures/programs/big.rs";
/// The size of the page, in pixels.
const PAGE: [u32; 2] = [1200, 760];
/// The size of the terminal, in characters.
const TERMINAL: [usize; 2] = [110, 28];
/// The size of a character in the picture of the terminal, in pixels.
const CHARACTER: [f64; 2] = [7.8, 17.0];
/// Time that the script of the page gets to draw it, and the live view to collect samples and to name what is hot in large libraries.
const DRAWN_AFTER: Duration = Duration::from_secs(5);
const SAMPLED_FOR: Duration = Duration::from_secs(60);

/// Makes all pictures. Takes no arguments.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let root = workspace::root();
    let target = tempfile::tempdir()?;
    let program = PROGRAM.replace("TARGET", &target.path().display().to_string());
    workspace::run(
        Command::new("cargo").args(["build", "--release", "--package", "prof-cli"]).current_dir(&root),
    )?;
    let prof = root.join("target/release/prof");
    let pictures = root.join("docs/src/pictures");
    std::fs::create_dir_all(&pictures)?;
    let run = |arguments: &str| {
        let command = format!("exec {} {arguments}", prof.display());
        workspace::run(Command::new("sh").args(["-c", &command]).current_dir(&root))
    };
    let at = |name: &str| target.path().join(name).display().to_string();
    let title = PROGRAM.replace("--out-dir TARGET ", "");
    let recording = at("prof.data");
    run(&format!("record -q -F 2999 -o {recording} -- {program}"))?;
    let flame = pictures.join("rustc.svg");
    run(&format!(
        "flame -q -i {recording} --min-width 0.3 --title '{title} · 2,999 Hz' -o {}",
        flame.display()
    ))?;
    let with_waits = at("waits.data");
    run(&format!("record -q --off-cpu -F 2999 -o {with_waits} -- {program}"))?;
    let page = at("page.html");
    run(&format!("view -q -i {with_waits} --title '{title}' -o {page}"))?;
    photograph(&page, &pictures.join("page.png"))?;
    let live = format!("{} top -- sh -c 'while :; do {program}; done'", prof.display());
    std::fs::write(pictures.join("top.svg"), screen(&live, &root)?)?;
    Ok(())
}

/// Writes the page as a browser shows it. A browser without a window takes its picture when a page is loaded, and the script draws later:
/// so the page is in a frame of another one, whose image comes late.
fn photograph(page: &str, picture: &Path) -> anyhow::Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let late = server.local_addr()?;
    thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let _ = stream.read(&mut [0; 4096]);
            thread::sleep(DRAWN_AFTER);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let [width, height] = PAGE;
    let outer = format!("{page}.outer.html");
    std::fs::write(
        &outer,
        format!(
            "<body style='margin:0'><iframe src='{page}' style='border:0;width:{width}px;height:{height}px'></iframe>\
             <img src='http://{late}/' style='display:none'>"
        ),
    )?;
    workspace::output(Command::new("chromium").args([
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        &format!("--window-size={width},{height}"),
        &format!("--screenshot={}", picture.display()),
        &format!("file://{outer}"),
    ]))?;
    Ok(())
}

/// Runs a live view in a terminal, and returns its screen as SVG.
fn screen(command: &str, folder: &Path) -> anyhow::Result<String> {
    let tmux = |arguments: &[&str]| {
        workspace::output(
            Command::new("tmux").args(["-L", "prof-pictures"]).args(arguments).current_dir(folder),
        )
    };
    let [columns, rows] = TERMINAL.map(|size| size.to_string());
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, command])?;
    thread::sleep(SAMPLED_FOR);
    let text = tmux(&["capture-pane", "-e", "-p"]);
    tmux(&["kill-server"])?;
    svg(&text?)
}

/// How characters look, as `ESC [ … m` sets it (ECMA-48, 8.3.117).
#[derive(Clone, Default)]
struct Look {
    colours: [Option<String>; 2],
    bold: bool,
    dim: bool,
    reversed: bool,
}

impl Look {
    /// Applies parameters of one sequence.
    fn set(&mut self, parameters: &str) {
        let mut numbers = parameters.split([';', ':']).map(|number| number.parse::<u32>().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                7 => self.reversed = true,
                22 => (self.bold, self.dim) = (false, false),
                27 => self.reversed = false,
                38 | 48 => {
                    let colour = match numbers.next() {
                        Some(5) => numbers.next().map(of_256),
                        Some(2) => Some(format!(
                            "#{:02x}{:02x}{:02x}",
                            numbers.next().unwrap_or(0),
                            numbers.next().unwrap_or(0),
                            numbers.next().unwrap_or(0)
                        )),
                        _ => None,
                    };
                    self.colours[usize::from(number == 48)] = colour;
                }
                39 => self.colours[0] = None,
                49 => self.colours[1] = None,
                30..=37 => self.colours[0] = Some(of_256(number - 30)),
                40..=47 => self.colours[1] = Some(of_256(number - 40)),
                90..=97 => self.colours[0] = Some(of_256(number - 82)),
                100..=107 => self.colours[1] = Some(of_256(number - 92)),
                _ => {}
            }
        }
    }
}

/// Returns a colour of the palette of 256.
fn of_256(number: u32) -> String {
    const NAMED: [&str; 16] = [
        "#1d1f21", "#cc6666", "#8fae5d", "#e0b050", "#6f9ecf", "#b294bb", "#6fb3b0", "#c5c8c6", "#707880",
        "#e07a7a", "#b5d07d", "#f0c674", "#8fb8e0", "#c9aad4", "#8fd0cc", "#ffffff",
    ];
    let level = |step: u32| if step == 0 { 0 } else { 55 + 40 * step };
    match number {
        0..=15 => NAMED[number as usize].to_owned(),
        16..=231 => {
            let cube = number - 16;
            format!("#{:02x}{:02x}{:02x}", level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        _ => {
            let grey = 8 + 10 * (number.min(255) - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}

/// Draws a screen as SVG.
fn svg(screen: &str) -> anyhow::Result<String> {
    const GROUND: &str = "#1d1f21";
    const INK: &str = "#d5d8d6";
    let [width, height] = CHARACTER;
    let size = [TERMINAL[0] as f64 * width + 16.0, TERMINAL[1] as f64 * height + 16.0];
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"monospace\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{GROUND}\"/>\n",
        size[0], size[1]
    );
    let mut look = Look::default();
    for (row, line) in screen.lines().enumerate() {
        let y = 8.0 + row as f64 * height;
        let mut column = 0;
        for (index, piece) in line.split('\u{1b}').enumerate() {
            let text = match piece.strip_prefix('[').and_then(|piece| piece.split_once('m')) {
                Some((parameters, text)) if index > 0 => {
                    look.set(parameters);
                    text
                }
                _ => piece,
            };
            let length = text.chars().count();
            if length == 0 {
                continue;
            }
            let [ink, ground] = look.colours.clone();
            let (ink, ground) = match look.reversed {
                true => {
                    (ground.unwrap_or_else(|| GROUND.to_owned()), Some(ink.unwrap_or_else(|| INK.to_owned())))
                }
                false => (ink.unwrap_or_else(|| INK.to_owned()), ground),
            };
            let (x, wide) = (8.0 + column as f64 * width, length as f64 * width);
            if let Some(ground) = ground {
                writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{height}\" fill=\"{ground}\"/>"
                )?;
            }
            if !text.trim().is_empty() {
                let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
                let opacity = if look.dim { " opacity=\"0.6\"" } else { "" };
                writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{wide:.1}\" fill=\"{ink}\" xml:space=\"preserve\"{weight}{opacity}>\
                     {escaped}</text>",
                    y + 13.0
                )?;
            }
            column += length;
        }
    }
    out.push_str("</svg>\n");
    (out.len() > 1000).then_some(out).context("the terminal shows nothing")
}
