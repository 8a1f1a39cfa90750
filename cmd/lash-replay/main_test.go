package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
)

func TestMain(m *testing.M) {
	testscript.Main(bustest.LeakChecked{M: m}, map[string]func(){
		"lash-replay":     main,
		"make-store":      helper(makeStore),
		"with-server":     helper(withServer),
		"make-signed":     helper(makeSigned),
		"erase":           helper(eraseSigned),
		"redact":          helper(redactSigned),
		"forge-record":    helper(forgeRecord),
		"forge-tombstone": helper(forgeTombstone),
		"forge":           helper(forgeArchive),
		"make-bad":        helper(makeBad),
		"make-kinds":      helper(makeKinds),
		"break-store":     helper(breakStore),
		"make-copies":     helper(makeCopies),
		"tamper":          helper(tamper),
		"with-other":      helper(withOther),
		"relabel":         helper(relabel),
	})
}

// helper makes a command of the scripts. It has args without the name, and exits with 2 on errors.
func helper(run func(args []string) error) func() {
	return func() {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitError)
		}
	}
}

func TestScripts(t *testing.T) { runScripts(t, "testdata") }

func TestLongScripts(t *testing.T) { runScripts(t, "testdata/long") }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: dir, Setup: func(e *testscript.Env) error {
		archives, err := filepath.Abs("testdata/archives")
		e.Setenv("ARCHIVES", archives)
		e.Setenv("GORACE", "atexit_sleep_ms=0") // a race build otherwise waits a second at each exit
		return err
	}})
}

// run is [program.CLI.Run] of a new command line.
func run(ctx context.Context, args []string, s *program.Streams) (code int) {
	return line(&cli{}).Run(ctx, args, s)
}
