package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// workload is the work during which nodes are killed: turns of three iterations with tools. Each effect writes a
// line to a journal outside the system.
type faultsWorkload struct {
	round   int  // of the process, so that nonces are unique
	untimed bool // the process's clock is wrong
	most    int  // sessions whose turns a node runs at once; 0: as many as a node does

	mu      sync.Mutex
	n       int
	journal io.Writer
	onLines func(lines int) // after each line; may be nil

	block func(ctx context.Context, effect string) // in each effect, which is named as in the journal; may be nil
}

// calls is the number of tools that each iteration calls; the reply after the last one ends the turn.
var calls = [][]string{{"idem"}, {"once"}, {"idem", "once", "read", "once"}}

// appendLine writes one line, "<session>/<effect> <nonce>", and returns the nonce, which has the time of the write:
// "<round>-<n>@<milliseconds>".
func (w *faultsWorkload) appendLine(id events.SessionID, effect events.EffectID) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	nonce := fmt.Sprintf("%d-%d", w.round, w.n)
	if !w.untimed {
		nonce += fmt.Sprintf("@%d", time.Now().UnixMilli())
	}
	_, err := fmt.Fprintf(w.journal, "%s/%s %s\n", id, effect, nonce)
	if w.onLines != nil {
		w.onLines(w.n)
	}
	return nonce, err
}

// spend is the body of an effect: it writes its line, takes a few milliseconds and returns its nonce.
func (w *faultsWorkload) spend(ctx context.Context, id events.SessionID, effect events.EffectID) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	nonce, err := w.appendLine(id, effect)
	if err != nil {
		return "", err
	}
	if w.block != nil {
		w.block(ctx, string(id)+"/"+string(effect))
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, string(id)+string(effect))
	timer := time.NewTimer(time.Duration(1+sum.Sum32()%12) * time.Millisecond) //nolint:forbidigo // the time of the effect's work
	defer timer.Stop()
	select {
	case <-timer.C:
		return nonce, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (w *faultsWorkload) reply(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	nonce, err := w.spend(ctx, req.Session, req.Effect)
	if err != nil {
		return scripted.Answer{}, err
	}
	r := llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text(nonce)}, Usage: events.Usage{Input: 10, Output: 1}}
	if int(req.Iteration) < len(calls) {
		r.Stop = events.StopToolUse
		for i, tool := range calls[req.Iteration] {
			r.Parts = append(r.Parts, harness.Call(events.CallID(fmt.Sprintf("c%d", i)), tool, "{}"))
		}
	}
	return scripted.Answer{Response: r}, nil
}

func (w *faultsWorkload) tools() *plugin.Tools {
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

// node is a node with the workload.
func (w *faultsWorkload) node(on *bus.Bus) (*workers.Node, error) {
	tools := w.tools()
	return workers.NewNode(workers.Config{
		Bus: on, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(w.reply)},
		Tools: func(events.SessionID) *plugin.Tools { return tools }, Concurrency: w.most,
	})
}

func workloadSession(i int) events.SessionID { return events.SessionID(fmt.Sprintf("s%02d", i)) }

func workloadTurn(i int) events.TurnID { return events.TurnID(fmt.Sprintf("t%02d", i)) }

// drive submits every turn of every session and waits for their ends. A repeat is idempotent. Every other session
// has two turns at a time.
func drive(ctx context.Context, h *session.Host, sessions, turns int) error {
	return driveFrom(ctx, h, sessions, 0, turns)
}

// driveFrom is drive without the first turns.
func driveFrom(ctx context.Context, h *session.Host, sessions, first, turns int) error {
	errs := make([]error, sessions)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			_, err := h.Create(ctx, api.CreateRequest{ID: workloadSession(i)})
			if err != nil && !errors.Is(err, api.ErrExists) {
				errs[i] = err
				return
			}
			errs[i] = driveOne(ctx, h, workloadSession(i), first, turns, 1+i%2)
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
				turn := workloadTurn(first + k)
				r, err := h.Run(ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{harness.Text("do " + string(turn))}}})
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

// startedAfter reports whether an execution started after at, or has no time.
func startedAfter(nonce string, at events.Millis) bool {
	_, text, _ := strings.Cut(nonce, "@")
	ms, err := strconv.ParseInt(text, 10, 64)
	return err != nil || events.Millis(ms) > at
}

// linesOf reads a journal: the nonces of each effect, in order. An incomplete last line is ignored.
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
