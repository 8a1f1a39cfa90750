package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
)

// Restart is the delay of running turns when their node is killed and restarts at once. There is one server and no
// other node.
type Restart struct {
	Turns     int     `json:"turns"`     // running at the kill
	PlainMS   float64 `json:"plain_ms"`  // from the first request to the last end, without a kill
	KilledMS  float64 `json:"killed_ms"` // the same with a kill -9 in the middle
	AddedMS   float64 `json:"added_ms"`  // the difference
	ReadyMS   float64 `json:"ready_ms"`  // from the kill until the new process is ready
	LastMS    float64 `json:"last_ms"`   // from the kill until the last turn was claimed again
	Takeovers int     `json:"takeovers"` // turns that continued in the new process
	Again     int     `json:"again"`     // effects running at the kill that ran again
	Doubled   int     `json:"doubled"`   // recorded effects that ran again
	Lost      int     `json:"lost"`      // unfinished turns, and those whose history differs
	Bad       []Bad   `json:"bad,omitempty"`
}

// The turns of a restart: model calls in sequence, with a tool call between each two.
const (
	restartTurns   = 64
	restartSteps   = 10
	restartEffects = 2*restartSteps + 1
)

// runRestart measures a restart. It uses these options: the store and the duration of model calls.
func runRestart(ctx context.Context, o *options) (*Restart, error) {
	o.Nodes, o.Plugins, o.Sessions = 1, new(0), restartTurns
	o.Chats = []string{filepath.Join(o.Store, "restart.jsonl")}
	if err := writeRow(o.Chats[0], restartSteps); err != nil {
		return nil, err
	}
	all, err := readChats(o.Chats)
	if err != nil {
		return nil, err
	}
	incidents := &journal{}
	f, err := startFleet(ctx, o, 1, incidents)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	l, b, err := openLoad(ctx, o, f, 1, all)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	warm := func() error { return nil }
	if _, err := l.row(ctx, 0, warm); err != nil { // the first turns fill the caches
		return nil, err
	}
	plain, err := l.row(ctx, 1, warm)
	if err != nil {
		return nil, err
	}
	var came time.Duration
	killed, err := l.row(ctx, 2, func() error {
		n := f.nodes[0]
		if err := l.halfway(ctx, n, 3*restartTurns*restartEffects-restartTurns*restartEffects/2); err != nil {
			return err
		}
		incidents.add(incident{Fault: FaultKill, Target: n.name, Worker: n.id, wakes: wakesOf(ctx, b), At: time.Now()})
		n.child.kill()
		killedAt := time.Now()
		err := f.startMember(ctx, n)
		came = time.Since(killedAt)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Restart{Turns: restartTurns, PlainMS: millis(plain), KilledMS: millis(killed), AddedMS: millis(killed - plain), ReadyMS: millis(came)}
	return r, l.auditRestart(ctx, b, r, incidents)
}

// halfway waits until a node's ledger has a number of lines.
func (l *load) halfway(ctx context.Context, n *member, lines int) error {
	for delay.Sleep(ctx, 5*time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(l.o.Store, "ledger-"+string(n.id)))
		if err != nil || bytes.Count(data, []byte("\n")) >= lines {
			return err
		}
	}
	return context.Cause(ctx)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()/100) / 10 }

// row plays every session once while during runs, and returns the duration.
func (l *load) row(ctx context.Context, n int, during func() error) (time.Duration, error) {
	began := time.Now()
	ended := make(chan error, restartTurns)
	for i := range restartTurns {
		go func() { ended <- l.play(ctx, sessionOf(n*restartTurns+i, 0)) }() // the loop below waits for all
	}
	errs := []error{during()}
	for range restartTurns {
		errs = append(errs, <-ended)
	}
	return time.Since(began), errors.Join(append(errs, context.Cause(ctx))...)
}

func (l *load) auditRestart(ctx context.Context, b *bus.Bus, r *Restart, incidents *journal) error {
	sum := &Report{ByFault: make(map[Fault]int)}
	err := l.audit(ctx, b, sum, incidents.all())
	r.LastMS, r.Takeovers, r.Again, r.Doubled, r.Lost, r.Bad = sum.TakeoverMax, sum.Takeovers, sum.Again, sum.Doubled, sum.Lost, sum.Bad
	return err
}

// writeRow writes the recording of a turn with n tool calls in sequence.
func writeRow(name string, n int) error {
	messages := []map[string]any{{"role": "user", "content": "count"}}
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": "next", "tool_calls": []map[string]any{
				{"id": id, "type": "function", "function": map[string]any{"name": "count", "arguments": "{}"}},
			}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": fmt.Sprint(i)})
	}
	messages = append(messages, map[string]any{"role": "assistant", "content": "done"})
	data, err := json.Marshal(map[string]any{"id": "row", "messages": messages})
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o600)
}
