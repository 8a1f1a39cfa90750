package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) { os.Exit(runtest.Select(m).Run()) }

type flags struct {
	Fail, Find bool
	Think      time.Duration `default:"1s"`
}

func (f *flags) Run(context.Context) error {
	switch {
	case f.Fail:
		return errors.New("no disk")
	case f.Find:
		return fmt.Errorf("audit: %w", Found("one is lost"))
	case f.Think != time.Second:
		return fmt.Errorf("think %s", f.Think)
	}
	return nil
}

// TestExitCodes has runs that succeed, that fail, that find something, and a process of the program.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	var apart []string
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, nil}, {1, []string{"--find"}}, {2, []string{"--fail"}}, {2, []string{"--fly"}}, {2, []string{"more"}}, {2, []string{"--think", "soon"}}, {0, []string{"node", "a", "b"}},
	} {
		p := &Program{Name: "p", Flags: &flags{}, Apart: map[string]func(context.Context, []string) error{
			"node": func(_ context.Context, args []string) error { apart = args; return nil },
		}}
		if got := p.Main(c.args); got != c.want {
			t.Errorf("%q: got exit code %d, want %d", c.args, got, c.want)
		}
	}
	if want := []string{"a", "b"}; !slices.Equal(apart, want) {
		t.Errorf("apart: got %q, want %q", apart, want)
	}
}
