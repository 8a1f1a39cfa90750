//go:build unix

package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/program/programtest"
	"github.com/lash-go/lash/internal/runtest"
)

func TestLongEveryFileIsRegular(t *testing.T) {
	t.Parallel()
	parser, err := line(&cli{}).Parser(&program.Streams{}, func(int) {})
	runtest.NoError(t, err)
	lines := programtest.EveryFileIsRegular(t, parser.Model, func(args []string) string {
		var messages bytes.Buffer
		code := run(t.Context(), args, &program.Streams{Out: io.Discard, Err: &messages, Env: func(string) string { return "" }})
		if code != exitError {
			t.Errorf("%q: got exit code %d, want %d", args, code, exitError)
		}
		return messages.String()
	})
	if lines < 100 {
		t.Errorf("%d command lines were tested", lines)
	}
}
