package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
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

// Checks of this command, in addition to those of package projector.
const (
	checkHistory  projector.Rule = "history"
	checkBlob     projector.Rule = "blob"
	checkBase     projector.Rule = "base"
	checkSnapshot projector.Rule = "snapshot"
	checkArchive  projector.Rule = "archive"
)

// finding is one violation and its location.
type finding struct {
	Session events.SessionID `json:"session,omitempty"`
	File    string           `json:"file,omitempty"`
	Seq     events.Seq       `json:"seq,omitempty"` // 0: the session as a whole
	Event   *int             `json:"event,omitempty"`
	Check   projector.Rule   `json:"check"`
	Problem string           `json:"problem"`

	Upto   events.Seq      `json:"upto,omitempty"`   // of a proof: last sequence, where only a range is known
	Commit events.CommitID `json:"commit,omitempty"` // of a proof
	Fault  proof.Fault     `json:"fault,omitempty"`  // of a proof
}

func (f finding) String() string {
	where := cmp.Or(string(f.Session), f.File)
	if f.Seq > 0 {
		where += fmt.Sprintf(" at %d", f.Seq)
	}
	if f.Event != nil {
		where += fmt.Sprintf(".%d", *f.Event)
	}
	if f.Fault == "" {
		return fmt.Sprintf("%s: %s: %s", where, f.Check, f.Problem)
	}
	if f.Commit != "" {
		where += ", commit " + string(f.Commit)
	}
	return fmt.Sprintf("%s: %s: %s: %s", where, f.Check, f.Fault, f.Problem)
}

// report is the result of a verification.
type report struct {
	Sessions      int64        `json:"sessions"`
	Commits       int64        `json:"commits"`
	Events        int64        `json:"events"`
	Snapshots     int64        `json:"snapshots"`
	Bases         int64        `json:"bases"` // of copies, compared with their originals
	Prompts       int64        `json:"prompts"`
	Blobs         int64        `json:"blobs"`
	Invariants    string       `json:"invariants"` // how often they were checked
	Violations    []finding    `json:"violations"`
	Proven        []*proven    `json:"proven,omitempty"`          // by session
	Tombstones    []*tombstone `json:"tombstones,omitempty"`      // of erased sessions
	Unchecked     int64        `json:"unchecked_heads,omitempty"` // for want of a key
	Trusted       []string     `json:"trusted,omitempty"`         // names of tenants' keys
	Notes         []string     `json:"notes,omitempty"`           // what could not be checked
	trust         *trust
	allowUnsigned bool
	lastHead      *proof.Head   // of the last session
	found         func(finding) // nil in the report of one session
}

func (r *report) add(f finding) {
	r.Violations = append(r.Violations, f)
	if r.found != nil {
		r.found(f)
	}
}

// Run verifies and reports.
func (c *verifyCmd) Run(ctx context.Context, e *env) error {
	r := &report{Violations: []finding{}, Invariants: "after every commit", found: func(f finding) {
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
		if err := e.writeJSON(r); err != nil {
			return err
		}
	} else {
		r.print(e)
	}
	if len(r.Violations) > 0 {
		return errViolations
	}
	return nil
}

func (c *verifyCmd) verify(ctx context.Context, e *env, r *report) (err error) {
	e.source.defaults(c.Targets...)
	if r.trust, err = c.trusted(e.source.Store); err != nil {
		return err
	}
	r.allowUnsigned, r.Notes = c.AllowUnsigned, r.trust.notes
	for _, v := range r.trust.tenants {
		r.Trusted = append(r.Trusted, v.Name())
	}
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
	err = ordered(ctx, len(ids), func(ctx context.Context, i int) (*report, error) {
		return r.session(ctx, e, src, ids[i], p)
	}, r.merge)
	return r.damaged(e.source.File, err)
}

// part is an empty report of one session.
func (r *report) part() *report { return &report{trust: r.trust, allowUnsigned: r.allowUnsigned} }

// history verifies the history of a session.
func (r *report) history(ctx context.Context, src source, id events.SessionID, p *progress) (*report, error) {
	part := r.part()
	v := &verification{report: part, src: src, id: id, progress: p, verifier: projector.NewVerifier(id), blobs: make(map[string]bool)}
	return part, v.run(ctx)
}

// session verifies the history of a session, or the tombstone of one that was erased, maybe since this program began.
func (r *report) session(ctx context.Context, e *env, src source, id events.SessionID, p *progress) (part *report, err error) {
	if err = e.mustBeThere(ctx, src, id); err == nil {
		part, err = r.history(ctx, src, id, p)
	}
	if err == nil && len(part.Violations) > 0 { // the files of a history may be missing because it was erased meanwhile
		if _, lastErr := src.Log().Last(ctx, id); errors.As(lastErr, new(*events.ErasedError)) {
			err = lastErr
		}
	}
	if gone := new(events.ErasedError); errors.As(err, &gone) && gone.Session == id {
		part = r.part()
		err = (&verification{report: part, src: src, id: id}).tombstone(ctx)
	}
	return part, err
}

// merge adds the report of one session, and returns the error of its verification.
func (r *report) merge(part *report, err error) error {
	if part == nil {
		return err
	}
	r.Sessions += part.Sessions
	r.Commits += part.Commits
	r.Events += part.Events
	r.Snapshots += part.Snapshots
	r.Bases += part.Bases
	r.Prompts += part.Prompts
	r.Blobs += part.Blobs
	r.Unchecked += part.Unchecked
	r.Proven = append(r.Proven, part.Proven...)
	r.Tombstones = append(r.Tombstones, part.Tombstones...)
	r.Notes = append(r.Notes, part.Notes...)
	r.lastHead = part.lastHead
	for _, f := range part.Violations {
		r.add(f)
	}
	return err
}

// files verifies each archive separately, so that a damaged one does not hide the others.
func (c *verifyCmd) files(ctx context.Context, e *env, r *report, visit func(source, events.SessionID) error) error {
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
func (r *report) damaged(file string, err error) error {
	if !errors.Is(err, errDamaged) {
		return err
	}
	r.add(finding{File: file, Check: checkArchive, Problem: err.Error()})
	return nil
}

func (r *report) print(e *env) {
	for _, note := range r.Notes {
		e.println("note:", note)
	}
	r.printProven(e)
	e.printf("checked %s and %s, invariants %s\n", number(r.Prompts, "prompt"), number(r.Blobs, "blob"), r.Invariants)
	if r.Bases > 0 {
		e.printf("compared bases of copies with their ancestors: %d\n", r.Bases)
	}
	if n := len(r.Tombstones); n > 0 {
		e.printf("erased: %s\n", number(int64(n), "session"))
	}
	e.printf("verified %s, %s, %s\n", number(r.Sessions, "session"), number(r.Events, "event"), number(r.Snapshots, "snapshot"))
	if n := len(r.Violations); n > 0 {
		e.println(number(int64(n), "violation"))
	}
}
