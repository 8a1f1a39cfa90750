package decision

import (
	"bytes"
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

// Difference is the first event of a commit that this program decides in another way.
type Difference struct {
	Seq      events.Seq
	ID       events.EventID // of the recorded event; of the commit's last event, if Recorded is nil
	Event    int            // its index in the commit
	Turn     events.TurnID
	Input    string        // from which the events follow, as "reply"
	Recorded *events.Event // nil: the history has no further event of this step
	Decided  *events.Event // nil: this program decides no such event
	Problem  string        // why this program refuses the input; empty otherwise
}

// Counts are the numbers of compared things.
type Counts struct {
	Commits   int64 // with decisions
	Steps     int64 // inputs that were decided again
	Decisions int64 // events that were compared
	Hooks     int64 // hook points whose hooks ran again
}

// Hooks runs the hooks of a program at the point that s needs, and returns their decisions. It must not change s. compared is
// false where the hooks cannot be run again: then the recorded decisions are the input. An error is a difference.
type Hooks func(ctx context.Context, s *projector.State, recorded turn.Hooks) (in turn.Hooks, compared bool, err error)

// Compare decides the commit of e again on s, the fold of all commits before it, which it does not change. Without hooks their
// decisions are inputs. It returns the first difference, or nil. The error is [projector.ErrPartial] of a state without its
// segments.
func (h Hooks) Compare(ctx context.Context, s *projector.State, e events.Entry) (Counts, *Difference, error) {
	c := &comparison{ctx: ctx, runHooks: h, entry: e, list: e.Commit.Events, s: s}
	for c.at < len(c.list) {
		if c.isInput() {
			c.fold(c.at + 1)
			continue
		}
		diff, err := c.step()
		if diff != nil || err != nil {
			return c.counts, diff, err
		}
	}
	if c.counts.Steps > 0 {
		c.counts.Commits = 1
	}
	return c.counts, nil, nil
}

// comparison is the comparison of one commit.
type comparison struct {
	ctx      context.Context //nolint:containedctx // of one call of Compare
	runHooks Hooks           // nil: the decisions of hooks are inputs
	entry    events.Entry
	list     []events.Event
	at       int              // index of the next event
	s        *projector.State // with the events before at folded; the caller's until the first of them
	copied   bool
	counts   Counts
}

// fold folds the events up to the index end, exclusive.
func (c *comparison) fold(end int) {
	if end < len(c.list) && !c.copied {
		c.s, c.copied = c.s.Clone(), true
	}
	if c.copied {
		for i := c.at; i < end; i++ {
			c.s.ApplyUncommitted(&c.list[i], c.entry.Commit.At)
		}
	}
	c.at = end
}

// step decides the next input again. Where several inputs could have led to the events, one that explains them suffices.
func (c *comparison) step() (*Difference, error) {
	var first *Difference
	furthest := -1
	for _, candidate := range c.candidates() {
		decided, err := candidate.decide(c.s)
		if err != nil && isPartial(err) {
			return nil, err
		}
		end, n, diff := c.match(decided, err, candidate.name)
		if diff == nil {
			c.counts.Steps++
			c.counts.Decisions += int64(n)
			c.fold(end)
			return nil, nil
		}
		if diff.Event > furthest {
			first, furthest = diff, diff.Event
		}
	}
	if first == nil {
		first = c.difference(c.at, &c.list[c.at], nil, "", "no input of this program leads to the event")
	}
	return first, nil
}

// match compares decided events with the recorded ones from at on, without inputs between them. It returns the index
// after the last one.
func (c *comparison) match(decided []events.Event, err error, name string) (end, n int, diff *Difference) {
	i := c.at
	if err != nil {
		return 0, 0, c.difference(i, &c.list[i], nil, name, err.Error())
	}
	for k := range decided {
		for i < len(c.list) && isAlwaysInput(&c.list[i]) && c.list[i].Kind != decided[k].Kind {
			i++
		}
		if i == len(c.list) {
			return 0, 0, c.difference(i, nil, &decided[k], name, "")
		}
		if !same(&c.list[i], &decided[k]) {
			return 0, 0, c.difference(i, &c.list[i], &decided[k], name, "")
		}
		i++
	}
	if len(decided) == 0 {
		return 0, 0, c.difference(i, &c.list[i], nil, name, "")
	}
	return i, len(decided), nil
}

func (c *comparison) difference(i int, recorded, decided *events.Event, name, problem string) *Difference {
	d := &Difference{Seq: c.entry.Seq, Event: i, Input: name, Recorded: recorded, Decided: decided, Problem: problem}
	d.ID = c.entry.Commit.EventID(min(i, len(c.list)-1))
	d.Turn = c.list[min(i, len(c.list)-1)].Turn
	return d
}

// same reports whether a recorded event is the decided one, after large bodies moved out of it. Instances of plugins that
// hold calls, and their terms, are inputs.
func same(recorded, decided *events.Event) bool {
	if recorded.Kind != decided.Kind || recorded.Turn != decided.Turn {
		return false
	}
	p, err := blob.Spill(context.Background(), digests{}, decided.Payload)
	if err != nil {
		return false
	}
	if called, ok := p.(*events.ToolCalled); ok {
		held := *called
		by := recorded.Payload.(*events.ToolCalled)
		held.Holders, held.Terms = by.Holders, by.Terms
		p = &held
	}
	want, err := events.EncodePayload(recorded.Payload)
	if err != nil {
		return false
	}
	got, err := events.EncodePayload(p)
	return err == nil && bytes.Equal(want, got)
}

// digests computes references and stores nothing.
type digests struct{}

func (digests) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
	return projector.RefOf(body), nil
}

func (digests) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	return nil, fmt.Errorf("body %s is not read here", ref.Digest)
}

// candidate is an input that could have led to the next events.
type candidate struct {
	name   string
	decide func(s *projector.State) ([]events.Event, error)
}

func stepOf(name string, in turn.Input) candidate {
	return candidate{name, func(s *projector.State) ([]events.Event, error) {
		out, err := turn.Step(s, in)
		return out.Events, err
	}}
}
