//! The static memory plan: what shares memory, and what must not.

use engine::op::Rows;
use engine::{Category, Lifetime, Op, Program, View, plan};
use terms::Dtype;

fn step(program: &mut Program, len: usize) -> View {
    program.buffer(Category::Activation, Lifetime::Step, Dtype::F32, len)
}

fn copy(program: &mut Program, x: View, y: View) {
    program.run(Op::Rows(Rows::Convert { x, y }));
}

#[test]
fn memory_is_used_again_once_nobody_names_it() {
    let mut program = Program::default();
    let (a, b) = (step(&mut program, 100), step(&mut program, 100));
    let (c, d) = (step(&mut program, 100), step(&mut program, 50));
    copy(&mut program, a, b);
    copy(&mut program, b, c);
    copy(&mut program, c, d);
    let plan = plan(&program);
    assert_eq!(plan.private, 2 * 448);
    assert_eq!(plan.categories[&Category::Activation], 2 * 448);
}

#[test]
fn buffers_alive_together_never_overlap() {
    // A chain that also reads from afar, of all sizes.
    let mut program = Program::default();
    let views: Vec<View> = (0..60).map(|index| step(&mut program, 1 + index * 7919 % 100)).collect();
    for index in 1..60 {
        copy(&mut program, views[index / 3], views[index]);
        copy(&mut program, views[index - 1], views[index]);
    }
    let plan = plan(&program);
    let lives = program.lifetimes();
    for a in 0..60 {
        for b in 0..a {
            let ((from, to), (begin, end)) = (lives[a].unwrap(), lives[b].unwrap());
            if from <= end && begin <= to {
                let (x, y) = (plan.places[a].offset, plan.places[b].offset);
                let (m, n) = (program.buffers[a].bytes(), program.buffers[b].bytes());
                assert!(x + m <= y || y + n <= x, "{a} and {b}");
            }
        }
    }
}
