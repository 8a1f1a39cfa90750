package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
)

// TestSaysWhatItWaitsFor has a server that takes connections and sends nothing, as one that hangs.
func TestSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	on, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close() //nolint:errcheck // the test's end
	url := "nats://me:hidden@" + on.Addr().String()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"ls", "--nats", url}, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if want := "waiting for the servers at nats://xxxxx@" + on.Addr().String(); code == 0 || !strings.Contains(errs.String(), want) {
		t.Errorf("got exit code %d and %s, want %s", code, errs.String(), want)
	}
}
