package integration

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// toil is the work that nodes are killed in: turns of three iterations with
// tools, each effect of which leaves a line in a journal outside of everything.
type toil struct {
	round   int  // of the process, so that nonces are unique
	untimed bool // the process's clock is wrong
	most    int  // sessions whose turns a node runs at once; 0: as many as a node does

	mu      sync.Mutex
	n       int
	journal io.Writer
	heard   func(lines int) // after each line; may be nil

	hold func(ctx context.Context, effect string) // in each effect, which is named as in the journal; may be nil
}

// calls are the tools that each iteration calls; the reply after the last is the answer.
var calls = [][]string{{"idem"}, {"once"}, {"idem", "once", "read", "once"}}

// note writes one line, "<session>/<effect> <nonce>", and returns the nonce,
// which says when it was written: "<round>-<n>@<milliseconds>".
func (w *toil) note(id events.SessionID, effect events.EffectID) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	nonce := fmt.Sprintf("%d-%d", w.round, w.n)
	if !w.untimed {
		nonce += fmt.Sprintf("@%d", time.Now().UnixMilli())
	}
	_, err := fmt.Fprintf(w.journal, "%s/%s %s\n", id, effect, nonce)
	if w.heard != nil {
		w.heard(w.n)
	}
	return nonce, err
}

// spend is what an effect does: it is asked for, takes a few milliseconds and answers with its nonce.
func (w *toil) spend(ctx context.Context, id events.SessionID, effect events.EffectID) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	nonce, err := w.note(id, effect)
	if err != nil {
		return "", err
	}
	if w.hold != nil {
		w.hold(ctx, string(id)+"/"+string(effect))
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, string(id)+string(effect))
	timer := time.NewTimer(time.Duration(1+sum.Sum32()%12) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nonce, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (w *toil) answer(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	nonce, err := w.spend(ctx, req.Session, req.Effect)
	if err != nil {
		return scripted.Answer{}, err
	}
	r := llm.Response{Stop: events.StopEnd, Parts: []events.Part{text(nonce)}, Usage: events.Usage{Input: 10, Output: 1}}
	if int(req.Iteration) < len(calls) {
		r.Stop = events.StopToolUse
		for i, tool := range calls[req.Iteration] {
			r.Parts = append(r.Parts, call(events.CallID(fmt.Sprintf("c%d", i)), tool, "{}"))
		}
	}
	return scripted.Answer{Response: r}, nil
}

func (w *toil) tools() *plugin.Tools {
	tools := plugin.NewTools()
	for name, effects := range map[string]events.Effects{
		"idem": events.EffectsIdempotent, "once": events.EffectsNonIdempotent, "read": events.EffectsNone,
	} {
		plugin.AddTool(tools, plugin.Tool{Name: name, Effects: effects}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			return w.spend(ctx, c.Session, c.Effect)
		})
	}
	return tools
}

// node is a node that does the work.
func (w *toil) node(on *bus.Bus) (*workers.Node, error) {
	tools := w.tools()
	return workers.NewNode(workers.Config{
		Bus: on, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(w.answer)},
		Tools: func(events.SessionID) *plugin.Tools { return tools }, Concurrency: w.most,
	})
}

func toilSession(i int) events.SessionID { return events.SessionID(fmt.Sprintf("s%02d", i)) }
func toilTurn(i int) events.TurnID       { return events.TurnID(fmt.Sprintf("t%02d", i)) }

// drive asks for every turn of every session and waits for their ends. Asking
// again is harmless. Every other session is asked for two turns at a time.
func drive(ctx context.Context, h *session.Host, sessions, turns int) error {
	return driveFrom(ctx, h, sessions, 0, turns)
}

// driveFrom leaves the first turns out.
func driveFrom(ctx context.Context, h *session.Host, sessions, first, turns int) error {
	errs := make([]error, sessions)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			_, err := h.Create(ctx, api.CreateRequest{ID: toilSession(i)})
			if err != nil && !errors.Is(err, api.ErrExists) {
				errs[i] = err
				return
			}
			errs[i] = driveOne(ctx, h, toilSession(i), first, turns, 1+i%2)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func driveOne(ctx context.Context, h *session.Host, id events.SessionID, first, turns, atOnce int) error {
	for ; first < turns; first += atOnce {
		errs := make([]error, atOnce)
		var some sync.WaitGroup
		for k := range min(atOnce, turns-first) {
			some.Go(func() {
				turn := toilTurn(first + k)
				r, err := h.Run(ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text("do " + string(turn))}}})
				if err == nil && r.End != events.EndFinished {
					err = fmt.Errorf("turn %s of %s: got end %s %+v, want %s", turn, id, r.End, r.Issue, events.EndFinished)
				}
				errs[k] = err
			})
		}
		some.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// begunAfter reports whether an execution began after at, or does not say when it began.
func begunAfter(nonce string, at events.Millis) bool {
	_, text, _ := strings.Cut(nonce, "@")
	ms, err := strconv.ParseInt(text, 10, 64)
	return err != nil || events.Millis(ms) > at
}

// linesOf reads a journal: the nonces of each effect, in order. A last line
// that was cut off is no line.
func linesOf(journal string) map[string][]string {
	lines := make(map[string][]string)
	for line := range strings.Lines(journal) {
		effect, nonce, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if ok && strings.HasSuffix(line, "\n") {
			lines[effect] = append(lines[effect], nonce)
		}
	}
	return lines
}
