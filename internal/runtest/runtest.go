// Package runtest says which tests run. Without LASH_LONG in the environment these are the default tests, which show that a
// change can be trusted: all but TestLong…, and of the packages that test the whole system TestSmoke…. With it
// all tests run. It imports nothing of lash, so that every package's tests may use it.
package runtest

import (
	"context"
	"flag"
	"os"
	"os/exec"
)

const (
	longVariable  = "LASH_LONG"
	childVariable = "LASH_TEST_CHILD"
)

// Long reports whether all tests run, at their full size.
func Long() bool { return os.Getenv(longVariable) != "" } //nolint:forbidigo // the switch of tests

// Of is a size of a test: long where all tests run, and else short.
func Of[T any](short, long T) T {
	if Long() {
		return long
	}
	return short
}

// Select leaves tests out by their names: TestLong… where only the default tests run, and TestChild… in every process that
// [Child] did not make. A TestMain calls it before it runs the tests.
func Select() {
	if !flag.Parsed() {
		flag.Parse()
	}
	skip := flag.Lookup("test.skip")
	leave := func(pattern string) {
		if old := skip.Value.String(); old != "" {
			pattern = old + "|" + pattern
		}
		_ = skip.Value.Set(pattern) // any text is valid
	}
	if !Long() {
		leave("^TestLong[A-Z]")
	}
	if os.Getenv(childVariable) == "" { //nolint:forbidigo // set by Child
		leave("^TestChild[A-Z]")
	}
}

// SelectSmoke leaves out all tests but TestSmoke…, where only the default tests run and the command line names none. A TestMain
// of a package of the whole system calls it before [Select].
func SelectSmoke() {
	if !flag.Parsed() {
		flag.Parse()
	}
	if run := flag.Lookup("test.run"); !Long() && run.Value.String() == "" {
		_ = run.Value.Set("^TestSmoke") // a valid pattern
	}
}

// Child is the command that runs one test of this binary, TestChild…, in a process of its own, with these variables. The
// caller starts and waits for it.
func Child(ctx context.Context, test string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$") //nolint:gosec // this binary
	cmd.Env = append(append(os.Environ(), childVariable+"=1"), env...)
	return cmd
}
