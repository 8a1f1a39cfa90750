package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"lash-replay": main,
		"make-store":  helper(makeStore),
		"make-three":  helper(makeThree),
		"with-server": helper(withServer),
		"make-bad":    helper(makeBad),
		"make-kinds":  helper(makeKinds),
		"break-store": helper(breakStore),
		"make-copies": helper(makeCopies),
		"tamper":      helper(tamper),
		"relabel":     helper(relabel),
	})
}

// helper makes a command of the scripts: args without the name, exit 2 on errors.
func helper(run func(args []string) error) func() {
	return func() {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitError)
		}
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second longer
		return nil
	}})
}
