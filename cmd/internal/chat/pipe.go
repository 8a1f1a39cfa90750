package chat

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	frame "github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// ErrTurn means that a turn ended without an answer.
var ErrTurn = frame.Difference("a turn ended without an answer")

// Pipe is a chat without a terminal. It reads prompts from In, and writes replies to Out and all else to Err.
type Pipe struct {
	Talk     *Talk
	In       io.Reader
	Out, Err io.Writer
	Session  events.SessionID
	Joins    bool // the session exists; else the first prompt creates it
	Whole    bool // all of In is one prompt; else each line is one
	JSON     bool // Out gets the session's events, one object a line
	Wait     bool // approvals of its own turns wait for another client; else the pipe refuses them

	view *View
	seen <-chan observed
}

// maxPrompt is the limit of a prompt, in bytes. The other fields of the request take the rest.
const maxPrompt = api.MaxRequestBytes - 64<<10

// refusal is why a pipe refuses a call.
const refusal = "no user can be asked: the chat reads from a pipe"

// Run submits a turn for each prompt, one after the other, and waits for its end. Errors: [ErrTurn] where a turn ended
// without an answer; later prompts are not submitted.
func (p *Pipe) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.Joins {
		if err := p.open(ctx); err != nil {
			return err
		}
	}
	for next := p.read(ctx); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case in, more := <-next:
			if !more || in.err != nil {
				return in.err
			}
			if err := p.turn(ctx, in.text); err != nil {
				return err
			}
		}
	}
}

// prompt is one prompt, or the error that ended the input.
type prompt struct {
	text string
	err  error
}

// read sends prompts. Its goroutine ends with In, or, once ctx has ended, with the next read of In: a read cannot be
// interrupted.
func (p *Pipe) read(ctx context.Context) <-chan prompt {
	out := make(chan prompt)
	go func() {
		defer close(out)
		for text, err := range p.prompts() {
			select {
			case out <- prompt{text, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (p *Pipe) prompts() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := bufio.NewScanner(p.In)
		in.Buffer(nil, maxPrompt)
		if p.Whole {
			in.Split(func(data []byte, end bool) (int, []byte, error) {
				if !end || len(data) == 0 {
					return 0, nil, nil
				}
				return len(data), data, nil
			})
		}
		for in.Scan() {
			if prompt := strings.TrimSpace(in.Text()); prompt != "" && !yield(prompt, nil) {
				return
			}
		}
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			yield("", &events.FieldError{Field: "prompt", Reason: fmt.Sprintf("has more than %d bytes", maxPrompt), Err: events.ErrTooLarge})
		} else if in.Err() != nil {
			yield("", fmt.Errorf("read prompts: %w", in.Err()))
		}
	}
}

// open joins the session. Where it does not exist, the first prompt creates it.
func (p *Pipe) open(ctx context.Context) (err error) {
	defer p.Talk.late(ctx, p.aside)()
	p.view, p.seen, err = p.Talk.Open(ctx, p.Session, !p.Joins, Options{Full: p.Talk.Full, Starts: p.Talk.Starts}, p.aside)
	if err == nil && !p.Joins {
		p.note("%s", p.Talk.Farewell(p.Session))
	}
	return err
}

// turn submits one prompt, and shows the session until the turn has ended.
func (p *Pipe) turn(ctx context.Context, prompt string) error {
	own := events.TurnID(ulid.Make().String())
	did := make(chan Outcome, 4)
	do := func(a Action) { go func() { did <- p.Talk.Do(ctx, p.Session, a) }() }
	if p.view == nil {
		if err := p.open(ctx); err != nil {
			return err
		}
	}
	do(Action{Verb: Say, Text: prompt, Turn: own})
	wait := newWaits()
	defer wait.stop()
	nodes, asks := newServing(p.Talk), newAgentQuestions(p.Talk)
	refused := make(map[events.EffectID]bool)
	refuse := func() {
		if q := p.view.Question(); q != nil && !p.Wait && p.view.Turn() == own && !refused[q.Effect] {
			refused[q.Effect] = true
			p.note("this call is refused, as no user can be asked at a pipe: --allow %s lets the node run such calls, --approvals wait leaves the answer to another terminal", q.Tool)
			do(Action{Verb: Answer, Session: q.Session, Effect: q.Effect, Text: refusal})
		}
	}
	for {
		select {
		case <-ctx.Done():
			p.interrupted(ctx, own)
			return fmt.Errorf("%w: %s goes on with the session", context.Cause(ctx), p.Talk.again(p.Session))
		case out := <-did:
			if out.Err != nil && (out.Action.Verb == Say || !errors.Is(out.Err, api.ErrNotAsked) && !errors.Is(out.Err, api.ErrDifferent)) {
				return out.Err
			}
		case o := <-p.seen:
			if o.err != nil {
				return o.err
			}
			if err := p.show(o.Observed, p.view.Turn() == own); err != nil {
				return err
			}
			if ended, err := p.view.Ended(own); err != nil || ended != nil {
				return p.ended(ended, err)
			}
			refuse()
		case is := <-nodes.found:
			nodes.set(p.view, is)
		case now := <-wait.C():
			nodes.check(ctx, p.view, now)
			for _, l := range asks.poll(ctx, p.Session, p.view) {
				p.aside(l)
			}
			refuse()
			what := cmp.Or(p.view.Status(), "waiting for a node to take the prompt: "+p.Talk.Starts)
			if what = wait.late(what); what != "" {
				p.note("%s", what)
			}
		case l := <-p.Talk.Link.Said():
			p.aside(l)
		}
	}
}

func (p *Pipe) ended(r *projector.TurnRecord, err error) error {
	if err != nil || !r.End.Stopped() {
		return err
	}
	return fmt.Errorf("%w: turn %s is %s: %s goes on with the session", ErrTurn, r.ID, r.End, p.Talk.again(p.Session))
}

// cancelWait bounds the cancel request of an interrupted chat.
const cancelWait = 5 * time.Second

// interrupted cancels the pipe's own turn, because no reader is left for its reply.
func (p *Pipe) interrupted(ctx context.Context, own events.TurnID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer cancel()
	if out := p.Talk.Do(ctx, p.Session, Action{Verb: Cancel, Turn: own}); out.Err == nil {
		p.note("the turn was cancelled")
	}
}

// show prints an observation. Replies of other clients' turns do not go to Out.
func (p *Pipe) show(o api.Observed, own bool) error {
	if p.JSON && o.Commit != nil {
		enc := json.NewEncoder(p.Out)
		enc.SetEscapeHTML(false)
		for i := range o.Commit.Events {
			if err := enc.Encode(eventjson.Of(events.Entry{Seq: o.Seq, Commit: o.Commit}, i)); err != nil {
				return fmt.Errorf("print events: %w", err)
			}
		}
	}
	list, err := p.view.Seen(o)
	for _, l := range list {
		if l.Kind != Reply || !own {
			p.aside(l)
			continue
		}
		if p.JSON {
			continue
		}
		if _, err := fmt.Fprintln(p.Out, l.Text); err != nil {
			return fmt.Errorf("print the reply: %w", err)
		}
	}
	return err
}

// aside writes a line to Err.
func (p *Pipe) aside(l Line) {
	_, _ = fmt.Fprintln(p.Err, l)
}

func (p *Pipe) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Err, "lash-node: "+format+"\n", args...)
}
