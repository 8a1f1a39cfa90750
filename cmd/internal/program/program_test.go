package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// TestWaitIsReportedAfterTwoSeconds prints the reason of a wait after two seconds, and nothing for a shorter wait.
func TestWaitIsReportedAfterTwoSeconds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		0: "", patience - 1: "", patience + 1: "lash-node: waiting for the end of t\n", time.Hour: "lash-node: waiting for the end of t\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			over := (&Streams{Name: "lash-node", Err: &out}).NoteWait("the end of %s", "t")
			time.Sleep(wait) //nolint:forbidigo // in a bubble
			synctest.Wait()
			over()
			time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
			synctest.Wait()
			runtest.Equal(t, fmt.Sprintf("after %s", wait), out.String(), want)
		})
	}
}

// TestRepeatedWaitsAreReportedOnce has waits that overlap and repeat: one line in ten seconds.
func TestRepeatedWaitsAreReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		begin := (&Streams{Name: "lash-node", Err: &out}).WaitNoter("the servers")
		short := begin()
		time.Sleep(patience - 1) //nolint:forbidigo // in a bubble
		short()
		for range 3 { // 18 s
			first, second := begin(), begin()
			time.Sleep(3 * patience) //nolint:forbidigo // in a bubble
			first()
			second()
		}
		synctest.Wait()
		if got := strings.Count(out.String(), "lash-node: waiting for the servers\n"); got != 2 {
			t.Errorf("got %q, want two lines", out.String())
		}
	})
}

// printed is a command line whose command prints two lines.
type printed struct {
	Lines linesCmd `cmd:"" help:"Print."`
}

type linesCmd struct{}

func (linesCmd) Run(_ context.Context, s *Streams) error {
	_, _ = io.WriteString(s.Out, "one\n")
	_, _ = io.WriteString(s.Out, "two\n")
	s.Printf("%d lines", 2)
	return nil
}

// writes has the texts that are written to it. Each write returns err.
type writes struct {
	list []string
	err  error
}

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), w.err
}

// TestBufferedOutput has a buffered command write once, and fail if its output cannot be written. Messages have the
// program's name.
func TestBufferedOutput(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, c := range []struct {
		buffered   bool
		err        error
		code, want int // exit code, number of writes
		message    string
	}{
		{false, nil, OK, 2, "p: 2 lines\n"},
		{true, nil, OK, 1, "p: 2 lines\n"},
		{true, full, Failed, 1, "p: 2 lines\np: write output: disk full\n"},
	} {
		out, messages := &writes{err: c.err}, new(strings.Builder)
		cli := &CLI{Name: "p", Flags: new(printed), Buffered: c.buffered}
		code := cli.Run(t.Context(), []string{"lines"}, &Streams{Out: out, Err: messages})
		if got := strings.Join(out.list, ""); code != c.code || got != "one\ntwo\n" || messages.String() != c.message {
			t.Errorf("%+v: got code %d, output %q, messages %q", c, code, got, messages)
		}
		if got := len(out.list); c.buffered && got != 1 || !c.buffered && got < c.want {
			t.Errorf("%+v: got %d writes", c, got)
		}
	}
}

// TestBareCommandLine prints the help. It succeeds, or names the missing command and fails.
func TestBareCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		helps    bool
		code     int
		messages string
	}{{true, OK, ""}, {false, Failed, "p: expected \"lines\"\n"}} {
		var out, messages strings.Builder
		cli := &CLI{Name: "p", Flags: new(printed), BareHelps: c.helps}
		if code := cli.Run(t.Context(), nil, &Streams{Out: &out, Err: &messages}); code != c.code || messages.String() != c.messages {
			t.Errorf("%+v: got code %d, messages %q", c, code, messages.String())
		}
		runtest.Contains(t, "string", out.String(), "Usage: p <command>")
	}
}

// failing is a command line whose command fails.
type failing struct {
	Do failingCmd `cmd:"" help:"Fail."`
}

type failingCmd struct{ err error }

func (c failingCmd) Run(context.Context, *Streams) error { return c.err }

// TestExitCodes has commands that fail, that find a difference, and that have printed what they found. Only texts get advice.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	found, said := Difference("there is none"), Silent("they differ")
	for _, c := range []struct {
		err      error
		code     int
		messages string
	}{
		{nil, OK, ""},
		{errors.New("no disk"), Failed, "p: no disk, buy one\n"},
		{found, Different, "p: there is none, buy one\n"},
		{fmt.Errorf("look for x: %w", found), Different, "p: look for x: there is none, buy one\n"},
		{said, Different, ""},
		{fmt.Errorf("compare: %w", said), Different, ""},
	} {
		var out, messages strings.Builder
		cli := &CLI{Name: "p", Flags: &failing{failingCmd{c.err}}, Explain: func(err error) error { return fmt.Errorf("%w, buy one", err) }}
		if code := cli.Run(t.Context(), []string{"do"}, &Streams{Out: &out, Err: &messages}); code != c.code || messages.String() != c.messages {
			t.Errorf("%v: got code %d, messages %q, want %d, %q", c.err, code, messages.String(), c.code, c.messages)
		}
	}
}
