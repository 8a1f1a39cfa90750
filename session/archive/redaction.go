package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// Refusals of a redaction: a session that is not closed, and a closed one with work left.
var (
	ErrOpen = errors.New("only a closed session without work can be redacted")
	ErrWork = errors.New("the session is closed, and has work left")
)

// Redact replaces payloads of a closed session by their digests, in its archive, for good. r says which, by whom and why;
// it is kept with the archive, signed where signer returns one. A hot session is archived first. Heads stay, and every
// proof. From then on the session can be read and not continued: a redacted event folds to nothing.
//
// Steps: mark the session's row; replace the archive, with the record, in one message; purge snapshots and rows. After a
// death before the second step nothing is changed, and after that archivers do the third. A call that died can be
// repeated: where all payloads are replaced already, also by another process meanwhile, Redact only purges, and returns the
// last record.
//
// Errors: [ErrOpen], [ErrWork]; an [*events.FieldError] for names that no event has, and for events without which the session would
// not be closed; [bus.ErrStale] where the session moved meanwhile; [bus.ErrErasing]; those of the bus.
func Redact(ctx context.Context, b *bus.Bus, id events.SessionID, r events.RedactionRecord, signer func() *proof.Signer) (events.RedactionRecord, error) {
	done, err := redact(ctx, b, id, r, signer)
	if err != nil {
		if _, gone := b.Log().Last(ctx, id); errors.As(gone, new(*events.ErasedError)) { // meanwhile, so that what is missing is no damage
			err = gone
		}
		return done, fmt.Errorf("redact session %s: %w", id, err)
	}
	return done, nil
}

func redact(ctx context.Context, b *bus.Bus, id events.SessionID, r events.RedactionRecord, signer func() *proof.Signer) (events.RedactionRecord, error) {
	if err := events.CheckRedactionNames(r.What); err != nil {
		return r, err
	}
	if err := cool(ctx, b, id); err != nil {
		return r, err
	}
	view := func(log events.Log) events.Log {
		return Redacted(log, func(e events.Entry, i int) bool {
			return slices.ContainsFunc(r.What, func(what string) bool { return events.NamesEvent(what, e, i) })
		})
	}
	left, kinds, err := named(ctx, b.Log(), id, r.What)
	if err != nil {
		return r, err
	}
	if len(left) == 0 {
		return repeated(ctx, b, id, r)
	}
	if err := staysClosed(ctx, b, view(b.Log()), id, kinds); err != nil {
		return r, err
	}
	if err := follow.MarkRedacting(ctx, b, id); err != nil {
		return r, err
	}
	r, err = b.Redact(ctx, id, r, view, func(ctx context.Context, r events.RedactionRecord) (string, error) {
		return follow.SignRedaction(ctx, b.Log(), id, r, signer)
	})
	if err != nil {
		if left, _, again := named(ctx, b.Log(), id, r.What); again == nil && len(left) == 0 { // another process was faster
			return repeated(ctx, b, id, r)
		}
		return r, err
	}
	return r, follow.FinishRedaction(ctx, b, id, false)
}

// cool makes a closed session cold.
func cool(ctx context.Context, b *bus.Bus, id events.SessionID) error {
	s, err := follow.Open(ctx, b, id) // without the key of the session this fails, and so does the redaction
	switch {
	case err != nil:
		return err
	case s.Status != projector.StatusClosed:
		return fmt.Errorf("%w: its status is %q", ErrOpen, s.Status)
	}
	done, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(ctx, id)
	if err == nil && !done {
		err = fmt.Errorf("%w: %s", ErrWork, workOf(s))
	}
	return err
}

// workOf says what keeps a closed session from becoming cold, and what ends it.
func workOf(s *projector.State) string {
	var tasks []string
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Unfinished() {
			tasks = append(tasks, string(t.ID))
		}
	}
	switch {
	case len(tasks) > 0:
		return fmt.Sprintf("the tasks %s, which were kept: a cancel ends them", strings.Join(tasks, ", "))
	case len(s.Unnotified) > 0:
		return "plugins have to hear of what happened: a node with them tells them"
	}
	return "it changed meanwhile: try again"
}

// NamedEvent is an event that a redaction names.
type NamedEvent struct {
	Seq  events.Seq
	ID   events.EventID
	Kind events.Kind
}

// Named lists the events of a session that a redaction would replace. It changes nothing. Errors: an [*events.FieldError] for an
// entry of what that names no event of the session that can be redacted.
func Named(ctx context.Context, log events.Log, id events.SessionID, what []string) (list []NamedEvent, err error) {
	if err = events.CheckRedactionNames(what); err == nil {
		list, _, err = named(ctx, log, id, what)
	}
	if err != nil {
		return nil, fmt.Errorf("redact session %s: %w", id, err)
	}
	return list, nil
}

// named lists the named events that have their payload, and the kinds that can be redacted. A name without any event is probably
// misspelled, and a payload would stay.
func named(ctx context.Context, log events.Log, id events.SessionID, what []string) (list []NamedEvent, has kinds, err error) {
	found, has := make([]bool, len(what)), make(kinds)
	for e, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, nil, err
		}
		for i := range e.Commit.Events {
			kind := e.Commit.Events[i].Kind
			if kind == events.KindAuditHeadSigned {
				continue
			}
			has[kind] = true
			named := false
			for k, one := range what {
				if events.NamesEvent(one, e, i) {
					found[k], named = true, true
				}
			}
			if named && e.Commit.Events[i].Redacted == nil {
				list = append(list, NamedEvent{e.Seq, e.Commit.EventID(i), kind})
			}
		}
	}
	if i := slices.Index(found, false); i >= 0 {
		return nil, nil, &events.FieldError{Field: "what", Reason: fmt.Sprintf("%q: no event of session %s that can be redacted has this kind or id: %s", what[i], id, has), Err: events.ErrInvalid}
	}
	return list, has, nil
}

// kinds are the kinds of a session's events.
type kinds map[events.Kind]bool

// maxKinds is how many kinds an error lists. A history may have kinds that this version does not know.
const maxKinds = 100

// String lists the kinds for an error.
func (k kinds) String() string {
	if len(k) == 0 {
		return "there is none"
	}
	return "its kinds are " + k.list()
}

// list is the kinds, sorted.
func (k kinds) list() string {
	text, more := "", ""
	list := slices.Sorted(maps.Keys(k))
	if len(list) > maxKinds {
		list, more = list[:maxKinds], fmt.Sprintf(" and %d more", len(list)-maxKinds)
	}
	for i, kind := range list {
		if i > 0 {
			text += ", "
		}
		text += string(kind)
	}
	return text + more
}

// repeated finishes a redaction whose payloads are replaced already.
func repeated(ctx context.Context, b *bus.Bus, id events.SessionID, r events.RedactionRecord) (events.RedactionRecord, error) {
	list, err := b.Redactions(ctx, id)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: payloads are missing, and no redaction is recorded", events.ErrMalformed)
	}
	if err != nil {
		return r, err
	}
	return list[len(list)-1], follow.FinishRedaction(ctx, b, id, false)
}

// staysClosed folds the redacted history: the session must be as closed as before, and nothing of it may wait or run.
func staysClosed(ctx context.Context, b *bus.Bus, log events.Log, id events.SessionID, has kinds) error {
	s, err := follow.At(ctx, log, b, id, math.MaxUint64)
	var problem string
	switch row := new(follow.Directory); {
	case err != nil:
		problem = err.Error()
	case s.Status != projector.StatusClosed:
		problem = fmt.Sprintf("its status would be %q", s.Status)
	default:
		*row = follow.RowOf(s)
		if err := s.Check(); err != nil {
			problem = err.Error()
		} else if !row.Inactive() {
			problem = "a turn or a task of it would not have ended"
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if problem != "" {
		return &events.FieldError{Field: "what", Reason: "the session needs some of these events: without them " + problem + "; name some of its kinds: " + has.list(), Err: events.ErrInvalid}
	}
	return nil
}
