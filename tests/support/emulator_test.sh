#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of tests/emulator.sh: emulator_test.sh INFO, with the hipvmm-info of a build for the host
# provider. The emulator is a script that sets the GPUs of that provider.
set -euo pipefail
script=$(cd "$(dirname "$0")/.." && pwd)/emulator.sh
info=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,path,none}
export HIPVMM_BUILD=$work
unset HIPVMM_EMULATOR HIPVMM_EMULATOR_SECONDS HIPVMM_EMULATOR_SLOW HIPVMM_TEST_BYTES
unset HIPVMM_HOST_PROFILE HIPVMM_HOST_FAULTS HIPVMM_CAPABILITY HIP_VISIBLE_DEVICES

fail() {
  printf '%s\n%s\n' "$1" "$output" >&2
  exit 1
}

# write NAME: an executable, from standard input.
write() {
  cat >"$work/$1"
  chmod +x "$work/$1"
}

# run EXPECTED_STATUS [ARGUMENT...]: the output of the script into `output`.
run() {
  local expected=$1 status=0
  output=$(bash "$script" "${@:2}" 2>&1) || status=$?
  ((status == expected)) || fail "$* ended with $status"
}
expect() { grep -qE -- "$1" <<<"$output" || fail "the output lacks: $1"; }
refuse() { ! grep -qE -- "$1" <<<"$output" || fail "the output has: $1"; }

write path/rocjitsu <<'END_OF_EMULATOR'
#!/usr/bin/env bash
gpus=1
if [[ $1 == --config ]]; then gpus=$(<"$2"); shift 2; fi
[[ $1 == -- ]] || exit 9
[[ ${HIP_VISIBLE_DEVICES:-} != 0 ]] || gpus=1
HIPVMM_HOST_DEVICES=$gpus HIPVMM_HOST_MEMORY=64MiB "${@:2}"
END_OF_EMULATOR
ln -s "$info" "$work/bin/hipvmm-info"
write bin/test_core <<'END_OF_PROGRAM'
#!/usr/bin/env bash
echo "arguments: $* devices $HIPVMM_HOST_DEVICES bytes $HIPVMM_TEST_BYTES" >>"$HIPVMM_BUILD/calls"
echo "a.cpp(1): MESSAGE: skipped: no second device"
echo "[doctest] test cases:  10 |  10 passed | 0 failed | 0 skipped"
END_OF_PROGRAM
cp "$work/bin/test_core" "$work/bin/test_mr"
write bin/test_vmm <<'END_OF_PROGRAM'
#!/usr/bin/env bash
echo "TEST CASE:  mapping: a case"
echo "m.cpp:7: ERROR: CHECK( 1 == 2 ) is NOT correct!"
echo "[doctest] test cases:  10 |  9 passed | 1 failed | 0 skipped"
exit 1
END_OF_PROGRAM
write bin/test_ipc <<'END_OF_PROGRAM'
#!/usr/bin/env bash
exec sleep 60
END_OF_PROGRAM
write bin/test_c <<'END_OF_PROGRAM'
#!/usr/bin/env bash
echo "[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped"
kill -ABRT $$
END_OF_PROGRAM
echo 2 >"$work/two.json"
echo 0 >"$work/none.json"

# Without an emulator, and with one that is no command.
PATH=$(dirname "$(command -v bash)"):/usr/bin:/bin run 1 core
expect 'neither rocjitsu nor mirage is on PATH'
HIPVMM_EMULATOR=$work/nothing run 1 core
expect 'nothing is no command'
PATH=$work/path:$PATH

run 0 "$work/two.json" core
expect '^virtual memory  yes$'
expect '^core +1 +9 +0 +1 '
expect '^core +2 +9 +0 +1 '
expect '^all that ran passed$'
refuse 'left out'
[[ $(<"$work/calls") == $'arguments:  devices 1 bytes 262144\narguments:  devices 2 bytes 262144' ]] ||
  fail "test_core was called otherwise: $(<"$work/calls")"

# One GPU, and slow cases.
rm "$work/calls"
HIPVMM_TEST_BYTES=4096 run 0 mr
expect 'left out: two GPUs: the emulator shows 1'
expect 'left out: mr: cases named .*random'
grep -q -- '--test-case-exclude=.*random.* devices 1 bytes 4096' "$work/calls" || fail "slow cases ran"
rm "$work/calls"
HIPVMM_EMULATOR_SLOW=1 run 0 mr
refuse 'cases named'
grep -q 'arguments:  devices' "$work/calls" || fail "slow cases did not run"

# Programs that fail, are killed, take too long or do not exist.
run 1 "$work/two.json" vmm core
expect '^vmm +1 +9 +1 +0 '
expect 'm.cpp:7: ERROR'
expect '^core +2 '
expect '2 of the programs failed'
run 1 c
expect '^test_c with 1 GPUs ended with status 134$'
HIPVMM_EMULATOR_SECONDS=8 run 0 "$work/two.json" ipc core
expect 'left out: ipc with 1 GPUs: stopped when the time was over'
expect 'left out: ipc with 2 GPUs: no time was left'
expect 'left out: core with 2 GPUs: no time was left'
write bin/test_budget <<'END_OF_PROGRAM'
#!/usr/bin/env bash
echo "b.cpp:7: ERROR: CHECK( 1 == 2 ) is NOT correct!"
echo "b.cpp:9: FATAL ERROR: test case CRASHED: SIGTERM - Termination request signal"
echo "[doctest] test cases:  10 |  8 passed | 2 failed | 0 skipped"
exec sleep 60
END_OF_PROGRAM
HIPVMM_EMULATOR_SECONDS=8 run 1 budget
expect '^budget +1 +8 +1 +0 '
expect 'left out: budget with 1 GPUs: stopped'
run 1 nothing
expect 'test_nothing does not exist'
run 1 "$work/none.json" core
expect 'no HIP device'

# An emulator without virtual memory runs the tests all the same, and that is told.
HIPVMM_HOST_PROFILE=rocm-5.7 run 0 core
expect '^virtual memory  (no|unknown)$'
expect 'left out: virtual memory: .* maps no chunk'
echo "emulator.sh reports what ran and what was left out"
