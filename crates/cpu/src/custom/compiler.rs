//! The system's C++ compiler: found, called, and its complaints cut down to the user's lines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use isopace_core::{Result, bail, err};
use xxhash_rust::xxh3::xxh3_128;

/// Names tried when `CXX` is not set.
const NAMES: [&str; 3] = ["c++", "g++", "clang++"];

/// Flags that fix the meaning of a kernel; a compiler that refuses one of these is no use.
const MEANING: &[&str] =
    &["-std=gnu++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-w", "-Wno-narrowing"];

/// Flags that make it fast or its errors short; left out together if the compiler knows not all.
const TUNING: &[&str] = &[
    "-march=native",
    "-pipe",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    // C++ lets a compiler drop a loop that never ends; then it could not be interrupted either.
    "-fno-finite-loops",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-U_FORTIFY_SOURCE",
    "-fmax-errors=5",
    "-fdiagnostics-color=never",
    // No lazy binding: an interrupt must not leave while the dynamic linker holds its lock.
    "-Wl,-z,now",
    "-Wl,-z,defs",
];

/// A C++ compiler that is there.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
    identity: u128,
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}

fn search(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|p| executable(p));
    }
    std::env::split_paths(path).filter(|d| d.is_absolute()).map(|d| d.join(name)).find(|p| executable(p))
}

impl Compiler {
    /// Finds the compiler by the environment: `CXX`, else `c++`, `g++`, `clang++` in `PATH`.
    ///
    /// # Errors
    /// `Kernel`, saying what to install, when there is none.
    pub fn system() -> Result<Compiler> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Compiler::find(std::env::var_os("CXX").as_deref(), &path)
    }

    /// Finds the compiler for given values of `CXX` (which may carry arguments) and `PATH`.
    ///
    /// # Errors
    /// As [`Compiler::system`].
    pub fn find(cxx: Option<&OsStr>, path: &OsStr) -> Result<Compiler> {
        const HELP: &str = "install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or clang++, or set CXX";
        let words = cxx.map(|c| c.as_bytes().split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty()));
        let mut words = words.into_iter().flatten().map(|w| OsStr::from_bytes(w).to_os_string());
        let (program, args) = match words.next() {
            Some(first) => match search(&first, path) {
                Some(program) => (program, words.collect()),
                None => {
                    bail!(Kernel, "[metal_kernel] CXX names {first:?}, which is not a program here; {HELP}")
                }
            },
            None => match NAMES.iter().find_map(|n| search(OsStr::new(n), path)) {
                Some(program) => (program, Vec::new()),
                None => bail!(
                    Kernel,
                    "[metal_kernel] custom kernels on the CPU need a C++ compiler, and none of c++, g++, clang++ is in PATH; {HELP}"
                ),
            },
        };
        // Path, time and size stand for the version: asking the compiler would cost a process.
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        let meta =
            real.metadata().map_err(|e| err!(Io, "[metal_kernel] cannot read {}: {e}", real.display()))?;
        let text = format!("{real:?} {args:?} {} {} {:?} {:?}", meta.mtime(), meta.size(), MEANING, TUNING);
        Ok(Compiler { program, args, identity: xxh3_128(text.as_bytes()) })
    }

    /// The program called.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A number that changes with the compiler and the flags given to it.
    pub(super) fn identity(&self) -> u128 {
        self.identity
    }

    /// Compiles `unit` to the shared library `out`.
    pub(super) fn compile(&self, kernel: &str, unit: &str, source: &Path, out: &Path) -> Result<()> {
        let (code, mut text) = self.call(source, out, true)?;
        if code && out.exists() {
            return Ok(());
        }
        let unknown =
            ["unrecognized", "unknown argument", "unsupported option", "bad value", "not supported"];
        if unknown.iter().any(|u| text.contains(u)) {
            let (code, second) = self.call(source, out, false)?;
            if code && out.exists() {
                return Ok(());
            }
            text = second;
        }
        let program = self.program.display();
        bail!(
            Kernel,
            "[metal_kernel {kernel}] the source does not compile ({program}):\n{}",
            essence(kernel, unit, &text)
        )
    }

    fn call(&self, source: &Path, out: &Path, tuned: bool) -> Result<(bool, String)> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).args(MEANING);
        if tuned {
            command.args(TUNING);
        }
        let out = command
            .arg("-o")
            .arg(out)
            .arg(source)
            .arg("-lm")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| err!(Kernel, "[metal_kernel] cannot run {}: {e}", self.program.display()))?;
        let mut text = String::from_utf8_lossy(&out.stderr).into_owned();
        if text.trim().is_empty() {
            // Seen only where there is no library.
            text = format!("{} said nothing ({}) and made no library", self.program.display(), out.status);
        }
        Ok((out.status.success(), text))
    }
}

/// Where line 1 of a part of the unit stands, by its `#line` mark.
fn user_line<'a>(unit: &'a str, part: &str, line: usize) -> Option<&'a str> {
    let mark = format!("#line 1 \"{part}\"\n");
    let start = unit.rfind(&mark)? + mark.len();
    unit[start..].lines().nth(line.checked_sub(1)?).filter(|l| !l.starts_with("#line"))
}

/// The errors of a compiler's output, each with the user's own line under it.
fn essence(kernel: &str, unit: &str, output: &str) -> String {
    let header = format!("{kernel} (header)");
    let place = |line: &str| -> Option<(String, usize)> {
        let part = if line.starts_with(&format!("{header}:")) { &header } else { kernel };
        let number = line.strip_prefix(part)?.strip_prefix(':')?.split(':').next()?.parse().ok()?;
        Some((part.to_string(), number))
    };
    let quote = |line: &str| {
        let (part, number) = place(line)?;
        Some(format!("{number:5} | {}\n", user_line(unit, &part, number)?.trim_end()))
    };
    let mut out = String::new();
    let mut from = None;
    for line in output.lines() {
        if line.contains("required from") || line.contains("in instantiation of") {
            from = place(line).map(|_| line).or(from);
        }
        if line.contains("error:") || line.contains("undefined reference") {
            if place(line).is_none()
                && let Some(at) = from
            {
                out.push_str(&format!("{at}\n{}", quote(at).unwrap_or_default()));
            }
            let plain = line.replace("* __restrict__", "*").replace("*__restrict", "*");
            out.push_str(&format!("{plain}\n{}", quote(line).unwrap_or_default()));
            from = None;
        }
        if out.len() > 3000 {
            out.push_str("...\n");
            break;
        }
    }
    if out.is_empty() {
        out = output.lines().take(12).map(|l| format!("{l}\n")).collect();
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_the_users_line() {
        let unit = "prelude\n#line 1 \"k\"\na;\nbad;\n#line 100 \"isopace generated\"\n";
        let text = "k: In function 'f':\nk:2:1: error: 'bad' was not declared\nmetal_math.h:9:1: note: x\n";
        assert_eq!(essence("k", unit, text), "k:2:1: error: 'bad' was not declared\n    2 | bad;");
        let text = "k:1:3:   required from here\nmetal_math.h:7:1: error: no type\n";
        assert_eq!(
            essence("k", unit, text),
            "k:1:3:   required from here\n    1 | a;\nmetal_math.h:7:1: error: no type"
        );
        assert_eq!(essence("k", unit, "odd"), "odd");
    }

    #[test]
    fn a_missing_compiler_is_an_error_that_helps() {
        let none = Compiler::find(None, OsStr::new("/nowhere")).unwrap_err().to_string();
        assert!(none.contains("apt install g++") && none.contains("none of c++, g++, clang++"), "{none}");
        let wrong = Compiler::find(Some(OsStr::new("/nowhere/cc -O0")), OsStr::new("/usr/bin")).unwrap_err();
        assert!(wrong.to_string().contains("CXX names \"/nowhere/cc\""), "{wrong}");
    }

    #[test]
    fn a_compiler_that_does_nothing_is_named() {
        let file = |name: &str| Path::new("/nowhere").join(name);
        for (name, status) in [("/bin/false", "exit status: 1"), ("/bin/true", "exit status: 0")] {
            let compiler = Compiler::find(Some(OsStr::new(name)), OsStr::new("")).unwrap();
            let done = compiler.compile("k", "", &file("k.cpp"), &file("k.so"));
            let e = done.unwrap_err().to_string();
            assert!(e.contains(&format!("{name} said nothing ({status}) and made no library")), "{e}");
        }
    }
}
