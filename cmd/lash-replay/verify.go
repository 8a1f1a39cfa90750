package main

import (
	"context"
	"errors"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	textsearch "github.com/lash-go/lash/session/search"
)

type verifyCmd struct {
	Targets []string `arg:"" optional:"" name:"session" help:"Sessions; archive files or folders of them (*.lash) when no source is given."`
	All     bool     `help:"Every session of the source."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
	proofFlags
}

// Help is shown by --help.
func (*verifyCmd) Help() string {
	return `Reads histories from their beginning and reports every violation:

  history    every commit can be decoded, and none is missing
  commit_id  every commit has an id of its own, a ULID
  sequence   commits follow each other
  state      the folded state keeps its invariants
  prompt     the prompt of every model reply can be rebuilt, and has the recorded digest
  blob       bodies kept outside the log are there and have the recorded digest
  base       what a copy began with is there, and is what the session that it is a copy of was, if that is still there
  snapshot   what is stored besides the history equals what it folds to, byte for byte
  archive    an archive file is whole
  proof      every commit up to the last signed head is what a certified node signed: none is altered, missing, moved or
             added. Needs the tenant's public key

The proof names each such commit. It does not prove that what a commit says is true, nor that the key was in the right
hands; the time of a commit, which must be in the certificate's validity, is the one that its node wrote. Commits after the
last head are listed, and not proven. A history that was cut off at an earlier head is a correct history: only --head, a
newer head from another place, shows that. Of an erased session the signed tombstone is checked.`
}

// verifyRun is what one command verifies, and what it has found so far.
type verifyRun struct {
	trust       *trust // signatures that count
	found       findings
	onViolation func(finding) // called for each violation, as it is found
}

// Run verifies and reports.
func (c *verifyCmd) Run(ctx context.Context, e *env) error {
	r := &verifyRun{onViolation: func(f finding) {
		if !c.JSON {
			e.println(f)
		}
	}}
	if err := c.verify(ctx, e, r); err != nil {
		return err
	}
	if err := r.unvisited(c.All); err != nil {
		return err
	}
	if err := r.writeHead(c.WriteHead); err != nil {
		return err
	}
	if c.JSON {
		if err := e.writeJSON(r.report()); err != nil {
			return err
		}
	} else {
		r.report().print(e)
	}
	if len(r.found.violations) > 0 {
		return errViolations
	}
	return nil
}

func (c *verifyCmd) verify(ctx context.Context, e *env, r *verifyRun) (err error) {
	e.source.defaults(c.Targets...)
	if r.trust, err = c.trusted(e.source.Store); err != nil {
		return err
	}
	r.found.notes = r.trust.notes
	p := &progress{w: e.Err, now: e.now, began: e.now()}
	switch {
	case c.All && len(c.Targets) > 0:
		return errors.New("name sessions or give --all, not both")
	case e.source.count() == 0 && len(c.Targets) > 0:
		return c.files(ctx, e, r, func(src source, id events.SessionID) error {
			return r.merge(r.history(ctx, src, id, p))
		})
	case e.source.count() > 0 && e.source.File == "" && !c.All && len(c.Targets) == 0:
		return errors.New("which sessions? name them, or give --all")
	}
	src, ids, err := e.sessions(ctx, c.Targets)
	if err != nil {
		return r.damaged(e.source.File, err)
	}
	defer src.Close()
	if len(c.Targets) == 0 {
		if ids, err = withErased(ctx, src, ids); err != nil {
			return err
		}
	}
	err = textsearch.InOrder(ctx, len(ids), func(ctx context.Context, i int) (*findings, error) {
		return r.session(ctx, e, src, ids[i], p)
	}, r.merge)
	return r.damaged(e.source.File, err)
}

// history verifies the history of a session. One that was redacted meanwhile is verified again, as its record and what was read of it
// do not belong together.
func (r *verifyRun) history(ctx context.Context, src source, id events.SessionID, p *progress) (*findings, error) {
	for {
		v := &verification{trust: r.trust, src: src, id: id, progress: p, verifier: projector.NewVerifier(id), blobs: make(map[string]bool)}
		err := v.run(ctx)
		if now, recordsErr := redactions(ctx, src, id); recordsErr != nil || len(now) <= len(v.records) {
			return &v.found, err
		}
	}
}

// session verifies the history of a session, or the tombstone of one that was erased, maybe since this program began.
func (r *verifyRun) session(ctx context.Context, e *env, src source, id events.SessionID, p *progress) (found *findings, err error) {
	if err = e.mustBeThere(ctx, src, id); err == nil {
		found, err = r.history(ctx, src, id, p)
	}
	if err == nil && len(found.violations) > 0 { // the files of a history may be missing because it was erased meanwhile
		if _, lastErr := src.Log().Last(ctx, id); errors.As(lastErr, new(*events.ErasedError)) {
			err = lastErr
		}
	}
	if lost, ok := lostIn(err, id); ok { // the other sessions are verified too
		v := &verification{trust: r.trust, src: src, id: id}
		v.found.Sessions++
		v.violation(lost.Last+1, -1, checkHistory, connect.Advised(lost).Error())
		return &v.found, nil
	}
	if gone := new(events.ErasedError); errors.As(err, &gone) && gone.Session == id {
		v := &verification{trust: r.trust, src: src, id: id}
		err = v.tombstone(ctx)
		found = &v.found
	}
	return found, err
}

// merge adds what was found in one session, and returns the error of its verification.
func (r *verifyRun) merge(one *findings, err error) error {
	if one != nil {
		r.found.merge(one)
		for _, f := range one.violations {
			r.onViolation(f)
		}
	}
	return err
}

// add adds a violation that is not of one session's history.
func (r *verifyRun) add(f finding) {
	r.found.violations = append(r.found.violations, f)
	r.onViolation(f)
}

// files verifies each archive separately, so that a damaged one does not hide the others.
func (c *verifyCmd) files(ctx context.Context, e *env, r *verifyRun, visit func(source, events.SessionID) error) error {
	files, err := program.Archives(c.Targets)
	if err != nil {
		return err
	}
	for _, file := range files {
		err := e.each(ctx, []string{file}, visit)
		if err := r.damaged(file, err); err != nil {
			return err
		}
	}
	return nil
}

// damaged turns the error of a damaged archive into a violation.
func (r *verifyRun) damaged(file string, err error) error {
	if !errors.Is(err, errDamaged) {
		return err
	}
	r.add(finding{File: file, Check: checkArchive, Problem: err.Error()})
	return nil
}
