#!/usr/bin/env bash
# The rondo command as several processes: started by mpirun (where it is installed), with torchrun's and srun's
# environment, in two network namespaces (where those can be made).
#   command_test.sh RONDO SOURCE_DIR WORK_DIR
set -euo pipefail
rondo=$1 source=$2 work=$3
here=$source/tests/processes
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "FAILED: $*" >&2; exit 1; }
skipped=()

# expect STATUS WHAT COMMAND...: checks the command's exit status; its output goes to "said".
expect() {
  local want=$1 what=$2 status=0
  shift 2
  timeout 120 "$@" >said 2>&1 || status=$?
  [ "$status" = "$want" ] || { cat said; fail "$what: exit status $status, not $want"; }
}
says() { grep -qE -- "$1" said || { cat said; fail "nothing says: $1"; }; }
# The CPU time that the process has used so far, in hundredths of a second.
processor_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat" 2>/dev/null || echo 0; }
silent() { ! grep -qE -- "$1" said || { cat said; fail "something says: $1"; }; }
same_outputs() {
  local file
  for file in alone$1/*; do cmp "$file" "$2/$(basename "$file")" || fail "$2: other outputs than in one process"; done
  [ "$(ls alone"$1" | wc -l)" = "$(ls "$2" | wc -l)" ] || fail "$2: other files than in one process"
}

for n in 2 4; do
  "$rondo" compile "$source/tests/data/pycoder/decode.onnx" --tp $n -o "plan$n.rondo" >/dev/null
done
inputs=(--input "tokens=$source/tests/data/pycoder/decode.test/test_data_set_0/input_0.pb"
  --input "positions=$source/tests/data/pycoder/decode.test/test_data_set_0/input_1.pb")
for n in 2 4; do "$rondo" run "plan$n.rondo" "${inputs[@]}" --output "alone$n" --threads 1 >/dev/null; done

mpi=(mpirun --allow-run-as-root --oversubscribe --mca btl self,vader,tcp --mca btl_tcp_if_include lo)
if command -v mpirun >/dev/null; then
  for n in 2 4; do
    expect 0 "$n processes under mpirun" "${mpi[@]}" -np $n "$rondo" run "plan$n.rondo" "${inputs[@]}" --output "mpi$n" --threads 1
    says "1 run in .* $n processes"
    [ "$(grep -c ' runs\? in ' said)" = 1 ] || fail "more than process 0 prints"
    same_outputs $n "mpi$n"
  done
  expect 0 "bench under mpirun" "${mpi[@]}" -np 2 "$rondo" bench plan2.rondo --runs 20 --threads 1 --trace trace.json --flight flight.bin
  says "wall time of a run"
  for process in 0 1; do
    "$rondo" flight "flight.bin.$process" >said || fail "process $process has no flight recorder"
    grep -q "program main" said || { cat said; fail "what process $process recorded"; }
  done
  expect 0 "test under mpirun" "${mpi[@]}" -np 2 "$rondo" test "$source/tests/data/fixtures" --threads 1
  says "[1-9][0-9]* passed, 0 failed, 0 skipped"
  expect 0 "test of stages of two under mpirun" "${mpi[@]}" -np 4 "$rondo" test "$source/tests/data/fixtures" --pp 2 --tp 2 --threads 1
  says "[1-9][0-9]* passed, 0 failed, 0 skipped"
  # Each process draws for itself (--tp), or gets the tokens that the last stage has drawn (--pp).
  prompt=(--prompt "import os" --max-tokens 30 --temperature 0.8 --top-k 20 --seed 5 --threads 1)
  for how in "--tp 2" "--pp 2" "--pp 2 --sample logits"; do
    "$rondo" compile "prefill=$source/tests/data/pycoder/prefill64.onnx" "decode=$source/tests/data/pycoder/decode.onnx" ${how/--tp 2/--tp 2 --sample logits} -o text.rondo >/dev/null
    given=("${prompt[@]}")
    [ "$how" = "--pp 2" ] && given=(--prompt "import os" --max-tokens 30 --threads 1)
    "$rondo" generate text.rondo "${given[@]}" --raw >alone.txt
    timeout 120 "${mpi[@]}" -np 2 "$rondo" generate text.rondo "${given[@]}" >mpi.txt 2>said || { cat said; fail "generate under mpirun, $how"; }
    cmp alone.txt mpi.txt || fail "generate under mpirun, $how: another text, or two"
    [ "$(grep -c 'the first token after' said)" = 1 ] || fail "generate under mpirun: more than process 0 prints"
  done
  head -c 1000000 "$rondo" >long.txt
  expect 1 "generate with a prompt that is too long, under mpirun" "${mpi[@]}" -np 2 "$rondo" generate text.rondo --prompt-file long.txt --threads 1
  says "exceed the model's context of 256"
  # Commands that measure refuse several processes. Commands that compile or check run in each process separately, and
  # files are complete.
  for command in profile tune; do
    expect 2 "$command under mpirun" "${mpi[@]}" -np 2 "$rondo" $command plan2.rondo -o measured.json
    says "start rondo $command once, without mpirun"
    [ ! -e measured.json ] || fail "$command under mpirun writes"
  done
  cp plan2.rondo before.rondo
  expect 0 "compile under mpirun" "${mpi[@]}" -np 2 "$rondo" compile "$source/tests/data/pycoder/decode.onnx" --tp 2 -o plan2.rondo
  cmp before.rondo plan2.rondo || fail "compile under mpirun: another plan"
  "$rondo" check plan2.rondo --write-expect before.json >/dev/null
  expect 0 "check under mpirun" "${mpi[@]}" -np 2 "$rondo" check plan2.rondo --write-expect expected.json
  cmp before.json expected.json || fail "check --write-expect under mpirun: another file"
  expect 1 "test for other numbers than there are processes" "${mpi[@]}" -np 2 "$rondo" test "$source/tests/data/fixtures" --tp 4
  says "needs 4 devices; this runtime has 2"
  # mpirun itself ends the others when one is killed, unless it is told not to.
  "${mpi[@]}" --enable-recovery -np 2 "$rondo" run plan2.rondo "${inputs[@]}" --repeat 1000000 --threads 1 --watchdog 5 >said 2>&1 &
  launcher=$!
  until victim=$(pgrep -P $launcher -f 'repeat 1000000' | tail -1) && [ "$(processor_ticks "$victim")" -gt 50 ]; do
    kill -0 $launcher || { cat said; fail "mpirun ended before one was killed"; }
    sleep 0.1
  done
  kill -9 "$victim"
  for ((i = 0; i < 300; ++i)); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
  kill -0 $launcher 2>/dev/null && { kill $launcher; cat said; fail "one was killed, and 30 s later another still runs"; }
  says 'process [01] has ended without a word|process [01] has given up'
else
  skipped+=("mpirun is not installed")
fi

launch=$here/launcher.py
for n in 2 4; do
  expect 0 "$n processes with torchrun's environment" "$launch" -n $n "$rondo" run "plan$n.rondo" "${inputs[@]}" --output "torch$n" --threads 1
  says "0 out: 1 run in .* $n processes"
  says "0 err: rondo: $n processes meet at 127.0.0.1:[0-9]+ without a secret"
  silent "^[1-9]"
  same_outputs $n "torch$n"
done
RONDO_SECRET=0123456789abcdef expect 0 "processes with a secret" "$launch" -n 2 "$rondo" run plan2.rondo "${inputs[@]}" --output secret2 --threads 1
silent "without a secret"
same_outputs 2 secret2
expect 0 "2 processes at torchrun's store" "$launch" --store -n 2 "$rondo" run plan2.rondo "${inputs[@]}" --output store2 --threads 1
same_outputs 2 store2
expect 0 "2 processes with srun's environment" "$launch" --srun -n 2 "$rondo" run plan2.rondo "${inputs[@]}" --output srun2 --threads 1
same_outputs 2 srun2

# One process is killed during a run: the others report it long before the watchdog would.
begun=$SECONDS
expect 1 "one of 4 is killed" "$launch" --kill 2:0.5 -n 4 "$rondo" run plan4.rondo "${inputs[@]}" --repeat 1000000 --threads 1 --watchdog 60
[ $((SECONDS - begun)) -lt 55 ] || fail "one was killed, and the others ended $((SECONDS - begun)) s later"
says 'err: rondo run: (program "main", step [0-9]+ \(.*\): device [013], sync point [0-9]+: )?process 2 has ended without a word'
for rank in 0 1 3; do says "^$rank err: rondo run: "; done
silent "^2 err"

# One process is stopped: the others' watchdogs find it.
expect 1 "one of 4 is stopped" "$launch" --stop 2:0.5 -n 4 "$rondo" run plan4.rondo "${inputs[@]}" --repeat 1000000 --threads 1 --watchdog 2
says '^[013] err: rondo run: program "main", step [0-9]+ \(.*\): device [013], sync point [0-9]+: no progress for [0-9]+ ms: the device waits here for another \(of [0123], '
for rank in 0 1 3; do says "^$rank err: rondo run: "; done

# Mistakes: every process reports an error at once.
expect 1 "another plan" "$launch" -n 2 bash -c "exec $rondo run plan\$((2 + 2 * RANK)).rondo ${inputs[*]}"
says '0 err: .*process 1: the plan needs 4 devices; this runtime has 2'
says '1 err: .*the plan needs 4 devices; this runtime has 2'
"$rondo" compile "$source/tests/data/pycoder/decode.onnx" --devices 2 -o other2.rondo >/dev/null
cp plan2.rondo mine0.rondo && cp other2.rondo mine1.rondo
expect 1 "plans of other contents" "$launch" -n 2 bash -c "exec $rondo run mine\$RANK.rondo ${inputs[*]}"
says '0 err: .*process 1 has plan "mine1.rondo" \(contents [0-9a-f]{16}\), but process 0 plan "mine0.rondo" \(contents [0-9a-f]{16}\)'
says '1 err: .*process 0 has plan "mine0.rondo"'
expect 1 "a plan that is not there" "$launch" -n 2 bash -c "rm -f mine1.rondo; exec $rondo run mine\$RANK.rondo ${inputs[*]}"
says '0 err: .*process 1 .*mine1.rondo'
expect 1 "one that never comes" "$launch" -n 2 bash -c "[ \$RANK = 1 ] || exec $rondo run plan2.rondo --timeout 1 ${inputs[*]}"
says '0 err: .*process 1 of 2 has not come to process 0 within 1.0 s'
expect 2 "--verify of several processes" "$launch" -n 2 "$rondo" run plan2.rondo --verify
says 'all devices of a plan in one process'
for command in profile tune; do
  expect 2 "$command of several processes" "$launch" -n 2 "$rondo" $command plan2.rondo -o measured.json
  says "0 err: rondo $command: this is process 0 of 2, as WORLD_SIZE is 2 in the environment.*without torchrun"
done
expect 1 "two secrets" "$launch" -n 2 bash -c "RONDO_SECRET=0123456789abcde\$RANK exec $rondo run plan2.rondo --timeout 1 ${inputs[*]}"
says '0 err: .*process 1 of 2 has not come to process 0 within 1.0 s'
says "1 err: .*who listens there does not know this process's secret"
RONDO_SECRET=short expect 1 "a short secret" "$launch" -n 2 "$rondo" run plan2.rondo "${inputs[@]}"
says 'RONDO_SECRET has 5 characters in the environment: a secret has 16 to 4096'
RANK=x WORLD_SIZE=2 expect 1 "a rank that is no number" "$rondo" run plan2.rondo
says 'RANK is "x" in the environment'
RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost expect 1 "no port" "$rondo" run plan2.rondo
says 'MASTER_PORT is not in the environment'

# Two hosts: network namespaces that are connected by one link.
a=rondo$$a b=rondo$$b
leave() { ip netns delete $a 2>/dev/null; ip netns delete $b 2>/dev/null; true; }
trap leave EXIT
if command -v ip >/dev/null && ip netns add $a 2>/dev/null && ip netns add $b 2>/dev/null &&
  ip link add rondo${$}v netns $a type veth peer name rondo${$}w netns $b 2>/dev/null; then
  ip -n $a address add 10.213.0.1/24 dev rondo${$}v && ip -n $a link set rondo${$}v up && ip -n $a link set lo up
  ip -n $b address add 10.213.0.2/24 dev rondo${$}w && ip -n $b link set rondo${$}w up && ip -n $b link set lo up
  for n in 2 4; do
    expect 0 "$n processes on two hosts" "$launch" --spaces $a,$b --address 10.213.0.1 -n $n "$rondo" run "plan$n.rondo" "${inputs[@]}" --output "hosts$n" --threads 1
    same_outputs $n "hosts$n"
  done
  # mpirun reaches the other host through a replacement for ssh: agent HOST COMMAND...
  cat >agent <<EOF
#!/usr/bin/env bash
space=\$([ "\$1" = 10.213.0.1 ] && echo $a || echo $b)
shift
exec ip netns exec \$space unshare --uts bash -c "hostname \$space; \$*"
EOF
  chmod +x agent
  for n in 2 4; do
    command -v mpirun >/dev/null || break
    expect 0 "$n processes on two hosts under mpirun" ip netns exec $a unshare --uts bash -c "hostname $a; exec mpirun \
      --allow-run-as-root --oversubscribe --mca plm_rsh_agent $work/agent --mca btl self,vader,tcp \
      --mca btl_tcp_if_include 10.213.0.0/24 --mca oob_tcp_if_include 10.213.0.0/24 \
      -H 10.213.0.1:$((n / 2)),10.213.0.2:$((n / 2)) -np $n $rondo run $work/plan$n.rondo ${inputs[*]} --output $work/mpihosts$n --threads 1"
    same_outputs $n "mpihosts$n"
  done
  expect 1 "one of two hosts' is killed" "$launch" --kill 1:0.5 --spaces $a,$b --address 10.213.0.1 -n 2 "$rondo" run plan2.rondo "${inputs[@]}" --repeat 1000000 --threads 1
  says '0 err: .*process 1 has ended without a word'
else
  skipped+=("no network namespaces can be made here")
fi

for reason in "${skipped[@]}"; do echo "skipped in part: $reason"; done
echo "several processes: as one"
