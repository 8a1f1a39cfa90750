// Package runtest says which tests run, and has their assertions. Without LASH_LONG in the environment these are the default tests,
// which show that a change can be trusted: all but TestLong…, and of the packages that test the whole system TestSmoke…. With it
// all tests run. It imports nothing of lash, so that every package's tests may use it.
package runtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
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

// Tests are a [testing.M], or what wraps one.
type Tests interface{ Run() int }

// Select are the tests without those left out by their names: TestLong… where only the default tests run, and TestChild… in every process
// that [Child] did not make. Eight run at once, since most wait for servers and timeouts. A TestMain runs them.
func Select(m Tests) Tests {
	AtOnce(8)
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
	return selected{m}
}

// AtOnce sets -parallel, whatever the number of processors, where the command line or a call before does not set it.
func AtOnce(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

type selected struct{ m Tests }

// Run runs the tests. The result that go test caches is one of the variable that selected them: go test knows only those that are read
// while tests run.
func (s selected) Run() int {
	code := s.m.Run()
	if name := flag.Lookup("test.testlogfile").Value.String(); name != "" {
		log, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // go test names it
		if err == nil {
			_, err = log.WriteString("getenv " + longVariable + "\n")
			err = errors.Join(err, log.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
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
