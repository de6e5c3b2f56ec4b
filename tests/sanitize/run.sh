#!/bin/sh
# Run the tests that drive the engine and the fabrics against a build with
# AddressSanitizer and UndefinedBehaviorSanitizer, or with ThreadSanitizer.
#
#   tests/sanitize/run.sh memory|threads PYTHON LIB [pytest arguments]
#
# LIB is a folder that holds the instrumented package (`make sanitize` makes
# build/sanitize/lib and build/threads/lib).  Given arguments take the place of the
# list of tests.
# Whatever a sanitizer reports, in pytest's process or in a child's, ends the run
# with a status that is not 0; that this works is tried first, on planted faults.
set -eu

if [ $# -lt 3 ] || [ "$1" != memory ] && [ "$1" != threads ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
mode=$1
python=$2
lib=$(cd "$3" && pwd)
shift 3
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cc=${CC:-cc}

# The interpreter is not instrumented, so the run-time library must be loaded before it.
if [ "$mode" = threads ]; then names=libtsan; else names="libasan libubsan"; fi
preloaded=
for name in $names; do
    one=$($cc -print-file-name=$name.so)
    if [ ! -e "$one" ]; then
        echo "run.sh: $cc has no $one: install the compiler's sanitizer libraries" >&2
        exit 1
    fi
    preloaded="$preloaded $one"
done

# Before the editable install, which is only a path further back.
export PYTHONPATH="$lib${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE=1
# Python's own allocator takes its memory in large pieces, inside of which an
# overrun is invisible; with malloc every object has its red zones.
[ "$mode" = threads ] || export PYTHONMALLOC=malloc
# detect_leaks=0: the interpreter frees little at exit, so its leaks would hide
# ours; the tests compare the engine's own counters instead.
# allocator_may_return_null: who asks for too much memory is to get MemoryError.
# log_path: the output of a child may be thrown away; a file stays.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:exitcode=99:allocator_may_return_null=1:\
detect_stack_use_after_return=1:log_path=$work/report${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:exitcode=99:\
log_path=$work/report${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
# halt_on_error=1 would end the run at the first race; what is told of the others helps.
# Nothing is suppressed: locks of the interpreter, the GIL too, are those of pthreads, which
# the library sees although the interpreter is not instrumented.
export TSAN_OPTIONS="halt_on_error=0:exitcode=99:log_path=$work/report${TSAN_OPTIONS:+:$TSAN_OPTIONS}"

instrumented() {
    LD_PRELOAD="$preloaded" "$@"
}

cd "$root"
instrumented "$python" "$here/selftest.py" "$mode" "$lib" "$work" "$cc"

# The tests that live on the compiled part; the launcher and the tools are Python,
# and start interpreters by the dozen.  Left out:
# - beyond_32_bits: gigabytes, of which the sanitizer wants an eighth more and fills
#   all; it tests arithmetic that the smaller ones of its file run through as well;
# - no_leak, exports_are_released: thousands of rounds that count references, which
#   a sanitizer adds nothing to;
# - same_address: freed memory is kept apart here, so that no address comes twice.
# Threads that race are only those that tests have.
if [ $# -eq 0 ] && [ "$mode" = threads ]; then
    set -- tests/engine/test_threads.py tests/memory/test_pool.py tests/memory/test_registration.py
elif [ $# -eq 0 ]; then
    set -- -n auto tests/conformance tests/engine tests/fabrics tests/api tests/memory \
        tests/fuzz/test_packet_fuzz.py \
        --deselect tests/memory/test_registration.py::test_same_address_again_is_another_array \
        --deselect tests/api/test_objects.py::test_beyond_32_bits_without_copies \
        --deselect tests/api/test_dlpack.py::test_no_leak \
        --deselect tests/api/test_buffers.py::test_exports_are_released_also_after_errors
fi
# Every fuzzed program runs about five times slower: fewer of them.
export FUZZ_EXAMPLES="${FUZZ_EXAMPLES:-20}"
# no:faulthandler leaves SIGSEGV to the sanitizer.  capture=sys leaves it descriptor 2:
# what pytest keeps of that until the test ends would end with the process, and the
# UBSan library of gcc, beside that of ASan, writes there whatever log_path says.
status=0
instrumented "$python" -m pytest -q -p no:faulthandler -p no:cacheprovider --capture=sys "$@" \
    || status=$?
for one in "$work"/report*; do
    if [ -e "$one" ]; then
        cat "$one"
        status=99
    fi
done
if [ "$status" -ne 0 ]; then
    echo "run.sh: a sanitizer reported, or a test failed: status $status" >&2
fi
exit "$status"
