package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector/follow"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

// redactFlags say what an exported archive lacks, and what it says about that.
type redactFlags struct {
	Redact []string `sep:"none" placeholder:"WHAT" help:"Leave out the payloads of these events, and bodies that only they refer to: a kind, a pattern of kinds as tool.*, or an event's id. Digests replace them, and lash-replay verify --key still proves the rest. Archives only. Needs --reason."`
	Reason string   `placeholder:"TEXT" help:"Why payloads are left out. The archive keeps it, with what, when and by whom."`
	As     string   `placeholder:"NAME" help:"Your name, as the archive records it. Defaults to the user of the operating system."`
	Keys   string   `type:"path" placeholder:"DIR" help:"Directory with a node's key and certificate, which sign the record of the redaction. Defaults to keys in --store; without either the record is not signed."`
}

// check checks the flags.
func (f *redactFlags) check() error {
	switch {
	case len(f.Redact) == 0 && (f.Reason != "" || f.As != "" || f.Keys != ""):
		return errors.New("--reason, --as and --keys go with --redact WHAT, which is missing")
	case len(f.Redact) == 0:
		return nil
	case f.Reason == "":
		return errors.New("--reason: say why; the archive keeps it")
	}
	if err := events.CheckToken("actor", events.SessionID(cmp.Or(f.As, "x"))); err != nil {
		return fmt.Errorf("--as %q: %w", f.As, err)
	}
	return nil
}

// of is the log without the payloads, and the records of what its history lacks.
func (f *redactFlags) of(ctx context.Context, e *env, src source, id events.SessionID) (events.Log, []events.RedactionRecord, error) {
	log := src.Log()
	records, err := src.Redactions(ctx, id)
	if err != nil || len(f.Redact) == 0 {
		return log, records, err
	}
	r := events.RedactionRecord{At: events.MillisOf(e.now()), By: cmp.Or(f.As, e.UserName("lash-replay")), Reason: f.Reason, What: f.Redact}
	if err := r.Check(); err != nil {
		return log, nil, fmt.Errorf("--redact: %w", err)
	}
	found, err := sessionarchive.Named(ctx, log, id, f.Redact)
	if _, named := errors.AsType[*events.FieldError](err); named {
		err = fmt.Errorf("--redact: %w: lash-replay events --json lists them", err)
	}
	if err != nil || len(found) == 0 { // all of them are redacted already
		return log, records, err
	}
	r.Events = int64(len(found))
	keys, err := connect.SigningKeys(e.Streams, f.Keys, e.source.Store)
	if err != nil {
		return log, nil, err
	}
	if keys != nil {
		if r.Note, err = follow.SignRedaction(ctx, log, id, r, func() *proof.Signer { return keys.Signer() }); err != nil {
			return log, nil, err
		}
	}
	redacted := sessionarchive.Redacted(log, func(entry events.Entry, i int) bool { return r.Names(entry, i) })
	return redacted, append(slices.Clip(records), r), nil
}
