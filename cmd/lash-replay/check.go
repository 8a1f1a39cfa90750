package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/recheck"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

type checkCmd struct {
	Targets []string `arg:"" optional:"" name:"session" help:"Sessions; archive files or folders of them (*.lash) when no source is given. Default: every session of the source."`
	JUnit   string   `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit's XML: one test case a session." writes:""`
	Whole   bool     `help:"A session with redacted payloads is one that cannot be checked."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*checkCmd) Help() string {
	return `Decides every step of recorded turns again, with the turn machine of this build, from the recorded inputs: requests,
replies, results, the decisions of hooks, ids and times. Nothing is executed. What this build decides must equal what is
recorded. The first difference of each session is shown with both sides.

Run it before a new version is deployed, over a folder of archives that lash-replay export wrote: a difference means that the
new version continues such sessions in another way, which a session that runs meanwhile may not survive.

The hooks of plugins do not run: their recorded decisions are inputs. A node's program runs its own hooks again with --check, as
lash-node serve --help says.

Not compared: what effects return, what hosts request, and a redacted history from its first redacted payload on. The documentation of package session/decision lists decisions and
inputs.

` + recheck.Questions
}

// Run checks the sessions and prints each result when it is there.
func (c *checkCmd) Run(ctx context.Context, e *env) error {
	e.quiet = c.JSON
	r := &recheck.Report{Results: []*recheck.Session{}, Whole: c.Whole}
	err := e.each(ctx, "checked", c.Targets, func(file string, src source, id events.SessionID, err error) error {
		one := &recheck.Session{File: file, ID: id}
		if err == nil {
			err = cmp.Or(one.Run(ctx, src.Log(), src, nil), src.Lost(ctx, id))
		}
		return c.finish(e, r, one, err)
	})
	if err != nil {
		return err
	}
	if c.JUnit != "" {
		if err := r.WriteJUnit(c.JUnit, "lash-replay check"); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if c.JSON {
		if err := e.writeJSON(r); err != nil {
			return err
		}
	} else {
		e.printf("%s", r.Text())
	}
	if r.Differences+r.Problems > 0 {
		return errViolations
	}
	return nil
}

// finish adds a result and prints it. A history that is damaged is a result too, so that it does not hide others.
func (c *checkCmd) finish(e *env, r *recheck.Report, one *recheck.Session, err error) error {
	if err != nil {
		if lost, ok := lostIn(err, one.ID); ok {
			err = connect.Advised(lost)
		} else if !errors.Is(err, program.ErrDamaged) && !errors.Is(err, recheck.ErrDamaged) && !isDamage(err) && !errors.Is(err, events.ErrFutureVersion) && !errors.Is(err, projector.ErrPartial) {
			return err
		}
		one.Problem = err.Error()
	}
	r.Add(one)
	if !c.JSON {
		e.printf("%s", one.Text())
	}
	return nil
}
