package main

import (
	"cmp"
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
	err := c.verify(ctx, e, r)
	if err == nil {
		err = r.unvisited(c.All)
	}
	if err == nil {
		err = r.writeHead(c.WriteHead)
	}
	if err == nil && c.JSON {
		err = e.writeJSON(r.found)
	} else if err == nil {
		r.found.print(e, r.trust.tenants)
	}
	if err == nil && len(r.found.Violations) > 0 {
		return errViolations
	}
	return err
}

func (c *verifyCmd) verify(ctx context.Context, e *env, r *verifyRun) (err error) {
	e.source.defaults(c.Targets...)
	if r.trust, err = c.trusted(e.source.Store); err != nil {
		return err
	}
	r.found.Invariants, r.found.Violations, r.found.Notes = "after every commit", []finding{}, r.trust.notes
	for _, v := range r.trust.tenants {
		r.found.Trusted = append(r.found.Trusted, v.Name())
	}
	switch {
	case c.All && len(c.Targets) > 0:
		return errors.New("name sessions or give --all, not both")
	case !e.source.named() && len(c.Targets) > 0:
		return e.each(ctx, "verified", c.Targets, func(file string, src source, id events.SessionID, err error) error {
			if err == nil {
				err = r.merge(r.history(ctx, src, id))
			}
			return r.damaged(file, err)
		})
	case e.source.named() && e.source.File == "" && !c.All && len(c.Targets) == 0:
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
	count := e.Counts(c.JSON, "verified", len(ids), "session")
	defer count.Stop()
	err = textsearch.InOrder(ctx, len(ids), func(ctx context.Context, i int) (*findings, error) {
		return r.session(ctx, e, src, ids[i])
	}, func(one *findings, err error) error {
		count.Add()
		return r.merge(one, err)
	})
	return r.damaged(e.source.File, err)
}

// history verifies the history of a session. One that was redacted meanwhile is verified again, as its record and what was read of it
// do not belong together.
func (r *verifyRun) history(ctx context.Context, src source, id events.SessionID) (*findings, error) {
	for {
		v := &verification{trust: r.trust, src: src, id: id, verifier: projector.NewVerifier(id), blobs: make(map[string]bool)}
		err := v.run(ctx)
		if now, recordsErr := redactions(ctx, src, id); recordsErr != nil || len(now) <= len(v.records) {
			return &v.found, err
		}
	}
}

// session verifies the history of a session, or the tombstone of one that was erased, maybe since this program began.
func (r *verifyRun) session(ctx context.Context, e *env, src source, id events.SessionID) (found *findings, err error) {
	if err = e.mustBeThere(ctx, src, id); err == nil {
		found, err = r.history(ctx, src, id)
	}
	if err == nil && len(found.Violations) > 0 { // the files of a history may be missing because it was erased meanwhile
		if _, lastErr := src.Log().Last(ctx, id); errors.As(lastErr, new(*events.ErasedError)) {
			err = lastErr
		}
	}
	if lost, ok := lostIn(cmp.Or(err, src.Lost(ctx, id)), id); ok { // what is left, and the other sessions, are verified too
		if found == nil {
			found = &findings{counts: counts{Sessions: 1}}
		}
		found.Violations = append(found.Violations, finding{Session: id, Seq: lost.Last + 1, Check: checkHistory, Problem: connect.Advised(lost).Error()})
		return found, nil
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
		for _, f := range one.Violations {
			r.onViolation(f)
		}
	}
	return err
}

// add adds a violation that is not of one session's history.
func (r *verifyRun) add(f finding) {
	r.found.Violations = append(r.found.Violations, f)
	r.onViolation(f)
}

// damaged turns the error of a damaged archive into a violation.
func (r *verifyRun) damaged(file string, err error) error {
	if !errors.Is(err, program.ErrDamaged) {
		return err
	}
	r.add(finding{File: file, Check: checkArchive, Problem: err.Error()})
	return nil
}
