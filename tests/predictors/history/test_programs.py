"""Programs of command lines: what a launcher, a shell or a wrapper adds is left out, and doubt is no program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.history.programs import LAUNCHER, LINE, SCRIPT, program_of


@pytest.mark.parametrize(
    ("line", "executable", "arguments", "source"),
    [
        ("sbatch relax.sh", "relax.sh", "", SCRIPT),
        ("sbatch -N 2 --job-name run17 -t60 --exclusive /home/ana/relax.sh case_17", "relax.sh", "case", SCRIPT),
        ("/usr/bin/sbatch -Hd afterok:12 -C h100&nvme a.sh", "a.sh", "", SCRIPT),
        ("sbatch -n 1 --wrap srun -n 4 ./app in_3", "app", "in", LAUNCHER),
        ("sbatch -n 1 --wrap=srun -n 4 ./app in_3", "app", "in", LAUNCHER),
        ("sbatch --wrap='cd x && srun -n 4 ./app in_3 > out 2>&1' -n 4", "app", "in", LAUNCHER),
        ("sbatch --wrap=module load x; python -u train.py --seed 4", "train.py", "seed", LINE),
        ("sbatch --wrap=hostname -N 2", "hostname", "", LINE),
        ("sbatch -J two nodes -n 2 --wrap ./app 3", "app", "", LINE),
        ("sbatch -n 1 -t 2 : -n 4 -t 2 het.sh", "het.sh", "", SCRIPT),
        ("srun -n64 -c 2 --mpi=pmix --cpu-bind cores ./lmp -in in.0012", "lmp", "in in", LAUNCHER),
        ("srun -W 10 --wait 5 -l ./app", "app", "", LAUNCHER),
        ("srun -n 1 ./ocean a : -n 2 ./air b", "ocean", "a", LAUNCHER),
        ("salloc -N 4 srun ./app", "app", "", LAUNCHER),
        ("salloc --wait ./run.sh", "run.sh", "", LINE),
        ("aprun -n 64 -N 4 -d2 -cc depth -j 1 -b -e A=1 ./nek5000 eddy", "nek5000", "eddy", LAUNCHER),
        ("aprun --pes=64 --cpu-binding depth -- ./qmc", "qmc", "", LAUNCHER),
        ("mpirun -np 4 --mca btl tcp,self -x A --bind-to core ./cp2k -i H2O-64.inp", "cp2k", "i h o inp", LAUNCHER),
        ("mpiexec.hydra -ppn 8 -genv OMP_NUM_THREADS 4 -genvall ./app", "app", "", LAUNCHER),
        ("OMP_NUM_THREADS=4 mpirun -n 2 env A=1 numactl -m 1 --localalloc ./app", "app", "", LAUNCHER),
        ("srun bash -lc 'source x; exec ./app 3'", "app", "", LAUNCHER),
        ("srun python3.11 -X dev -m pkg.train --lr 0.1", "pkg.train", "lr", LAUNCHER),
        ("qsub -A proj -n 512 --mode script job.sh", "job.sh", "", SCRIPT),
        ("./app in.7 < deck | tee log", "app", "in", LINE),
        ("bash -o pipefail run.sh", "run.sh", "", LINE),
    ],
)  # fmt: skip
def test_the_program_of_a_line(line: str, executable: str, arguments: str, source: str) -> None:
    found = program_of(line)
    assert found is not None
    assert (found.executable, found.arguments, found.source) == (executable, arguments, source)


@pytest.mark.parametrize(
    "line",
    ["", " ", "sbatch", "sbatch --wrap", "salloc -N 2", "srun --pty bash", "srun --pty bash -i", "sbatch -C a | x.sh",
     "srun --multi-prog x.conf", "aprun -n 4 $APP", "aprun --unheard-of 4 ./app", "mpirun -np 4", "mpirun --mca a",
     "srun python -c 'print(1)'", "cd a; ./one; ./two", "for i in 1 2; do ./app $i; done", "sbatch --wrap='(a", "A=1",
     "~170331c6c2bf7d~0a1b2c3d4e5f60", "--", "srun " * 40 + "x"],
)  # fmt: skip
def test_doubt_is_no_program(line: str) -> None:
    assert program_of(line) is None


WORD = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
OPTION = st.one_of(
    st.tuples(st.sampled_from(("-J", "--job-name", "-t", "--mem", "-o", "-A")), WORD).map(" ".join),
    st.tuples(st.sampled_from(("--job-name=", "-J", "--time=")), WORD).map("".join),
    st.sampled_from(("--exclusive", "-l", "--hold", "-N2", "-n 64")),
)


@given(st.sampled_from(("sbatch", "srun")), st.lists(OPTION, max_size=5), WORD, st.integers(0, 9999))
def test_options_and_numbers_change_no_program(command: str, options: list[str], name: str, run: int) -> None:
    name = f"x{name}"
    plain = program_of(f"{command} ./{name} -i in_0.dat")
    assert plain is not None
    assert plain.executable == name
    assert program_of(" ".join((command, *options, f"/home/u{run}/{name} -i in_{run}.dat"))) == plain


@given(st.text(max_size=60), st.lists(st.sampled_from(
    ("sbatch", "srun", "aprun", "mpirun", "--wrap", "--wrap=", "-n", "--", "bash", "-c", "env", ";", "'",
     "A=1", ">", ":", "x")
), max_size=12))  # fmt: skip
def test_any_line_is_read_or_refused(text: str, words: list[str]) -> None:
    for line in (text, " ".join((*words, text))):
        found = program_of(line)
        assert found is None or (found.executable and "/" not in found.executable)
