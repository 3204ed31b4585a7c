//! Kernels recorded from another program, run here: `ISOPACE_KERNEL_DUMP=folder`. Each folder in it
//! has `meta.txt` (name, inputs, template, grid, outputs), `source.txt`, `header.txt`, `inN.bin`
//! and, where the right answer is known, `wantN.bin`.

use super::*;

fn parse_dtype(s: &str) -> Dtype {
    Dtype::from_name(s).unwrap()
}

fn data(dtype: Dtype, shape: &[i32], bytes: &[u8]) -> Data {
    let elems: usize = shape.iter().map(|&s| s as usize).product();
    let mut d = Data::shaped(bytes, &[bytes.len() as i32]);
    let shaped = Data::shaped(&vec![0u8; elems], shape);
    (d.dtype, d.shape, d.strides, d.elems) = (dtype, shape.to_vec(), shaped.strides, elems);
    d
}

fn floats(d: &Data) -> Vec<f64> {
    match d.dtype {
        Dtype::F32 => d.to::<f32>().into_iter().map(f64::from).collect(),
        Dtype::F16 => d.to::<half::f16>().into_iter().map(f64::from).collect(),
        Dtype::BF16 => d.to::<half::bf16>().into_iter().map(f64::from).collect(),
        Dtype::U32 => d.to::<u32>().into_iter().map(f64::from).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn recorded_kernels() {
    let Some(dir) = std::env::var_os("ISOPACE_KERNEL_DUMP") else { return };
    let mut folders: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let read = |n: &str| std::fs::read_to_string(folder.join(n)).unwrap();
        let (meta, source, header) = (read("meta.txt"), read("source.txt"), read("header.txt"));
        let (mut name, mut names, mut outs, mut grids) = (String::new(), vec![], vec![], vec![]);
        let (mut inputs, mut outputs, mut template) = (vec![], vec![], vec![]);
        for line in meta.lines() {
            let w: Vec<&str> = line.split_whitespace().collect();
            match w[0] {
                "name" => name = w[1].into(),
                "input" => {
                    let shape: Vec<i32> = w[3..].iter().map(|v| v.parse().unwrap()).collect();
                    let bytes = std::fs::read(folder.join(format!("in{}.bin", names.len()))).unwrap();
                    inputs.push(data(parse_dtype(w[2]), &shape, &bytes));
                    names.push(w[1]);
                }
                "template" => template.push((
                    w[1],
                    match w[2] {
                        "bool" => TemplateValue::Bool(w[3] == "1"),
                        "int" => int(w[3].parse().unwrap()),
                        _ => dt(parse_dtype(w[3])),
                    },
                )),
                "output" => {
                    outs.push(w[1]);
                    outputs.push(Data::zeros(parse_dtype(w[2]), w[3].parse().unwrap()));
                }
                _ => grids.push([1, 2, 3].map(|i| w[i].parse::<u32>().unwrap())),
            }
        }
        let k = function_with(KernelText {
            name: &name,
            input_names: &names,
            output_names: &outs,
            source: &source,
            header: &header,
            ..Default::default()
        });
        let started = std::time::Instant::now();
        call(&k, &template, &mut inputs, &mut outputs, grids[0], grids[1]).unwrap();
        let first = started.elapsed();
        let started = std::time::Instant::now();
        call(&k, &template, &mut inputs, &mut outputs, grids[0], grids[1]).unwrap();
        let again = started.elapsed();
        let mut worst = String::new();
        for (i, o) in outputs.iter().enumerate() {
            let Ok(bytes) = std::fs::read(folder.join(format!("want{i}.bin"))) else { continue };
            let want = floats(&data(o.dtype, &[o.elems as i32], &bytes));
            let scale = want.iter().fold(0f64, |m, v| m.max(v.abs()));
            let d = floats(o).iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale;
            worst += &format!(" {}: {d:.1e}", outs[i]);
            let allowed = if inputs.iter().any(|i| i.dtype.size() == 2) { 2e-2 } else { 2e-5 };
            assert!(d < allowed, "{name} {}: off by {d} of {scale}", outs[i]);
        }
        #[allow(clippy::print_stdout)]
        {
            println!("{name:32} first {first:9.2?} again {again:9.2?} {worst}");
        }
    }
}
