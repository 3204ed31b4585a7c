use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use isopace_cpu::custom::Compiler;

use super::*;

const SOURCE: &str = "uint i = thread_position_in_grid.x; out[i] = a[i] * 2 + N;";

fn spec(name: &str, n: i64) -> (KernelFunction, Arc<Specialization>) {
    let k = function(name, &["a"], &["out"], SOURCE);
    let s = specialize(&k, &[("N", int(n))], &[Data::of(&[0f32; 8])], &[Data::zeros(Dtype::F32, 8)]).unwrap();
    (k, s)
}

fn at(dir: &Path) -> Modules {
    Modules::new(ModulesOptions { dir: Some(dir.to_path_buf()), ..Default::default() })
}

fn libraries(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut v: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "so"))
        .collect();
    v.sort();
    v
}

fn works(modules: &Modules, k: &KernelFunction, n: i64) {
    let mut out = [Data::zeros(Dtype::F32, 8)];
    let x: Vec<f32> = (0..8).map(|i| i as f32).collect();
    call_with(
        modules,
        &Interrupt::new(),
        k,
        &[("N", int(n))],
        &mut [Data::of(&x)],
        &mut out,
        [8, 1, 1],
        [8, 1, 1],
    )
    .unwrap();
    assert_eq!(out[0].to::<f32>(), x.iter().map(|v| v * 2.0 + n as f32).collect::<Vec<_>>());
}

#[test]
fn compiled_once_and_found_again() {
    let dir = fresh_dir("found");
    let (k, s) = spec("found", 1);
    let m = at(&dir);
    assert!(m.get(&s).unwrap().built);
    assert!(!m.get(&s).unwrap().built);
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&libraries(&dir)[0])), (0o700, 0o600));
    // Another process would find it on disk.
    let other = at(&dir);
    assert!(!other.get(&s).unwrap().built);
    works(&other, &k, 1);
    let stats = other.stats();
    assert_eq!((stats.loaded, stats.built, stats.from_disk), (1, 0, 1));
    assert_eq!(libraries(&dir).len(), 1);
    assert!(
        std::fs::read_dir(&dir).unwrap().all(|e| !e
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with("build-"))
    );
}

#[test]
fn bad_files_are_rebuilt() {
    let dir = fresh_dir("bad");
    let (k, s) = spec("bad", 1);
    at(&dir).get(&s).unwrap();
    let file = libraries(&dir).pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let (_, other) = spec("bad", 2);
    at(&dir).get(&other).unwrap();
    let foreign = libraries(&dir).into_iter().find(|p| *p != file).unwrap();
    let mut flipped = whole.clone();
    flipped[5000] ^= 1;
    let damages: [&dyn Fn(); 9] = [
        &|| std::fs::write(&file, b"junk").unwrap(),
        &|| std::fs::write(&file, b"").unwrap(),
        &|| std::fs::write(&file, &whole[..whole.len() / 2]).unwrap(),
        &|| std::fs::write(&file, &whole[..whole.len() - 48]).unwrap(),
        &|| std::fs::write(&file, &flipped).unwrap(),
        &|| {
            std::fs::copy(&foreign, &file).unwrap();
        },
        &|| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap(),
        &|| {
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink(&foreign, &file).unwrap();
        },
        &|| {
            std::fs::remove_file(&file).unwrap();
            std::fs::create_dir(&file).unwrap();
        },
    ];
    for (i, damage) in damages.iter().enumerate() {
        // A new inode each time: this process has the old one mapped.
        let copy = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, copy).unwrap();
        damage();
        let m = at(&dir);
        assert!(m.get(&s).unwrap().built, "damage {i}");
        works(&m, &k, 1);
        assert!(!at(&dir).get(&s).unwrap().built, "damage {i} not repaired");
    }
}

#[test]
fn threads_share_one_build() {
    let dir = fresh_dir("flight");
    let (_, s) = spec("flight", 1);
    let m = at(&dir);
    let built = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| built.fetch_add(usize::from(m.get(&s).unwrap().built), Ordering::Relaxed));
        }
    });
    assert_eq!((built.into_inner(), m.stats().built), (1, 1));
}

/// Not a test by itself: what each process of the next test runs.
#[test]
fn child_builds() {
    let Some(dir) = std::env::var_os("ISOPACE_TEST_DIR") else { return };
    let (k, s) = spec("shared", 5);
    let m = at(Path::new(&dir));
    let built = m.get(&s).unwrap().built;
    works(&m, &k, 5);
    std::fs::write(
        Path::new(&dir).join(format!("result-{}", std::process::id())),
        if built { "built" } else { "found" },
    )
    .unwrap();
}

#[test]
fn processes_share_one_build() {
    let dir = fresh_dir("processes");
    std::fs::create_dir_all(&dir).unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["modules::child_builds", "--exact"])
            .env("ISOPACE_TEST_DIR", &dir)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut c in children {
        assert!(c.wait().unwrap().success());
    }
    let results: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.file_name().to_string_lossy().starts_with("result-"))
        .map(|e| std::fs::read_to_string(e.path()).unwrap())
        .collect();
    assert_eq!((results.len(), results.iter().filter(|r| *r == "built").count()), (4, 1));
    assert_eq!(libraries(&dir).len(), 1);
}

#[test]
fn the_folder_is_bounded() {
    let dir = fresh_dir("bounded_dir");
    let (_, s) = spec("bounded_dir", 0);
    at(&dir).get(&s).unwrap();
    let one = std::fs::metadata(&libraries(&dir)[0]).unwrap().len();
    let m =
        Modules::new(ModulesOptions { dir: Some(dir.clone()), max_disk_bytes: one * 5 / 2, compiler: None });
    for n in 1..5 {
        m.get(&spec("bounded_dir", n).1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    assert_eq!(libraries(&dir).len(), 2);
    assert!(!at(&dir).get(&spec("bounded_dir", 4).1).unwrap().built);
    assert!(at(&dir).get(&spec("bounded_dir", 0).1).unwrap().built);
}

#[test]
fn works_without_a_folder() {
    let (k, _) = spec("no_folder", 3);
    works(&Modules::new(ModulesOptions { dir: None, ..Default::default() }), &k, 3);
    // A file where the folder should be.
    let dir = fresh_dir("not_a_folder");
    std::fs::write(&dir, b"x").unwrap();
    works(&at(&dir), &k, 3);
}

#[test]
fn no_compiler_says_what_to_install() {
    let e = Compiler::find(None, std::ffi::OsStr::new("/nowhere")).unwrap_err();
    insta::assert_snapshot!(e, @"[metal_kernel] custom kernels on the CPU need a C++ compiler, and none of c++, g++, clang++ is in PATH; install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or clang++, or set CXX");
}

#[test]
fn compile_errors_show_the_users_line() {
    let m = modules();
    let no = |k: &KernelFunction, t: &[(&str, TemplateValue)]| {
        let s = specialize(k, t, &[Data::of(&[0f32; 8])], &[Data::zeros(Dtype::F32, 8)]).unwrap();
        let text = m.get(&s).unwrap_err().to_string();
        let program = text.split('(').nth(1).and_then(|t| t.split(')').next()).unwrap_or("").to_string();
        text.replace(&program, "CXX")
    };
    let k = function(
        "broken_one",
        &["a"],
        &["out"],
        "uint idx = thread_position_in_grid.x;\nout[idx] = no_such_word;\nfloat z = a.x;",
    );
    insta::assert_snapshot!(no(&k, &[]), @r"
    [metal_kernel broken_one] the source does not compile (CXX):
    broken_one:2:12: error: 'no_such_word' was not declared in this scope
        2 | out[idx] = no_such_word;
    broken_one:3:13: error: request for member 'x' in 'a', which is of non-class type 'const float*'
        3 | float z = a.x;
    ");
    let text = KernelText {
        name: "broken_two",
        input_names: &["a"],
        output_names: &["out"],
        header: "inline float f(float x) {\n  return x +;\n}",
        source: "out[0] = f(a[0]);",
        ..Default::default()
    };
    insta::assert_snapshot!(no(&function_with(text), &[]), @r"
    [metal_kernel broken_two] the source does not compile (CXX):
    broken_two (header):2:13: error: expected primary-expression before ';' token
        2 |   return x +;
    ");
    let k = function("broken_three", &["a"], &["out"], "\n\nout[0] = T(as_type<short>(a[0]));");
    let text = no(&k, &[("T", dt(Dtype::F32))]);
    // An error inside the prelude is led to the user's line.
    assert!(
        text.contains("broken_three:3:") && text.contains("\n    3 | out[0] = T(as_type<short>(a[0]));\n"),
        "{text}"
    );
    assert!(text.contains("as_type needs types of one size"), "{text}");
    let k = function("broken_four", &["a"], &["out"], "extern float missing(float); out[0] = missing(a[0]);");
    assert!(no(&k, &[]).contains("undefined reference to `missing(float)'"), "{}", no(&k, &[]));
    // A failure is not kept, and the name is free.
    works(m, &spec("broken_one", 4).0, 4);
}

#[test]
fn the_portable_switch_works() {
    let cxx = std::ffi::OsStr::new("c++ -DISOPACE_UCONTEXT");
    let Ok(compiler) = Compiler::find(Some(cxx), &std::env::var_os("PATH").unwrap_or_default()) else {
        return;
    };
    let m = Modules::new(ModulesOptions { dir: None, compiler: Some(compiler), ..Default::default() });
    let k = function("portable", &[], &["out"], "threadgroup int s[100]; uint t = thread_index_in_threadgroup;
        s[t] = simd_sum(int(t)); threadgroup_barrier(mem_flags::mem_threadgroup); out[thread_position_in_grid.x] = s[99 - t];");
    let mut out = [Data::zeros(Dtype::I32, 1000)];
    call_with(&m, &Interrupt::new(), &k, &[], &mut [], &mut out, [1000, 1, 1], [100, 1, 1]).unwrap();
    let sums: Vec<i32> = (0..100).map(|t| (t / 32 * 32..(t / 32 * 32 + 32).min(100)).sum()).collect();
    let want: Vec<i32> = (0..1000).map(|i| sums[99 - i % 100]).collect();
    assert_eq!(out[0].to::<i32>(), want);
}

#[test]
fn no_optional_flags_works_too() {
    // A compiler that refuses a tuning flag is asked again without all of them.
    let dir = fresh_dir("picky");
    std::fs::create_dir_all(&dir).unwrap();
    let script = dir.join("picky");
    std::fs::write(&script, "#!/bin/sh\nfor a in \"$@\"; do [ \"$a\" = -march=native ] && { echo \"error: unrecognized option $a\" >&2; exit 1; }; done\nexec c++ \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let compiler = Compiler::find(Some(script.as_os_str()), std::ffi::OsStr::new("")).unwrap();
    let m = Modules::new(ModulesOptions { dir: None, compiler: Some(compiler), ..Default::default() });
    let (k, _) = spec("picky", 2);
    works(&m, &k, 2);
    let sum = function("picky_sum", &[], &["out"], "out[thread_position_in_grid.x] = simd_sum(1);");
    let mut out = [Data::zeros(Dtype::I32, 64)];
    call_with(&m, &Interrupt::new(), &sum, &[], &mut [], &mut out, [64, 1, 1], [64, 1, 1]).unwrap();
    assert_eq!(out[0].to::<i32>(), [32; 64]);
}

#[test]
fn cuda_is_refused() {
    let text = KernelText {
        name: "g",
        output_names: &["out"],
        source: "out[0] = 1;",
        dialect: isopace_core::kernel::Dialect::Cuda,
        ..Default::default()
    };
    let s = specialize(&function_with(text), &[], &[], &[Data::zeros(Dtype::F32, 1)]).unwrap();
    insta::assert_snapshot!(modules().get(&s).unwrap_err(), @"[cuda_kernel g] CUDA C++ needs an NVIDIA GPU; a CPU runs the Metal dialect (metal_kernel)");
}

#[test]
fn odd_ends_of_a_source() {
    for end in ["// the end", "\\", "/* done */", "#if 1\n#endif"] {
        let k = function("ends", &["a"], &["out"], &format!("out[0] = a[0] + 0.5;\n{end}"));
        let mut out = [Data::zeros(Dtype::F32, 1)];
        call(&k, &[], &mut [Data::of(&[1f32])], &mut out, [1, 1, 1], [1, 1, 1]).unwrap();
        assert_eq!(out[0].to::<f32>(), [1.5], "{end:?}");
    }
}
