package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lash-go/lash/bus/bustest"
)

func TestMain(m *testing.M) {
	testscript.Main(bustest.LeakChecked{M: m}, map[string]func(){"bench": main})
}

// TestLongScripts runs the program for some seconds.
func TestLongScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

func TestOnly(t *testing.T) {
	t.Parallel()
	r, err := measure(t.Context(), &options{Scale: 1000, Only: "fold"})
	if err != nil || r.FoldPerSecond <= 0 || len(r.Lash) != 2 || len(r.Raw) != 0 {
		t.Errorf("got %+v, %v, want the fold's figures alone", r, err)
	}
}
