package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/session/memory"
)

// desk is a caller whose tools are functions; it records its calls.
type desk struct {
	mu       sync.Mutex
	calls    map[int]Call
	results  map[int]string // returned instead of a call, by ordinal
	messages []string
	asked    int // for the attachments of the conversation
	tools    map[string]func(args map[string]any) (string, error)
}

func newDesk() *desk {
	return &desk{calls: make(map[int]Call), results: make(map[int]string), tools: map[string]func(map[string]any) (string, error){
		"add":     func(a map[string]any) (string, error) { return fmt.Sprint(num(a["a"]) + num(a["b"])), nil },
		"echo":    func(a map[string]any) (string, error) { b, err := json.Marshal(a); return string(b), err },
		"greet":   func(a map[string]any) (string, error) { return fmt.Sprintf("hello %v", a["name"]), nil },
		"broken":  func(map[string]any) (string, error) { return "", errors.New("out of paper") },
		"panics":  func(map[string]any) (string, error) { panic("ouch") },
		"my-tool": func(map[string]any) (string, error) { return `"dashed"`, nil },
		"print":   func(map[string]any) (string, error) { return `"shadowed"`, nil },
		"stops":   func(map[string]any) (string, error) { return "", fmt.Errorf("not now: %w", ErrStop) },
		"deep_json": func(map[string]any) (string, error) {
			return strings.Repeat("[", 5000) + strings.Repeat("]", 5000), nil
		},
	}}
}

func num(v any) float64 { f, _ := v.(float64); return f }

func (d *desk) names() []string { return slices.Sorted(maps.Keys(d.tools)) }

func (d *desk) Call(_ context.Context, c Call) (json.RawMessage, error) {
	d.mu.Lock()
	d.calls[c.Ordinal] = c
	answer, recorded := d.results[c.Ordinal]
	d.mu.Unlock()
	if !recorded {
		var args map[string]any
		if err := json.Unmarshal(c.Args, &args); err != nil {
			return nil, err
		}
		var err error
		if answer, err = d.tools[c.Tool](args); err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.results[c.Ordinal] = answer
		d.mu.Unlock()
	}
	if c.Whole {
		return json.RawMessage(`{"value":` + answer + `,"attachments":[{"media_type":"image/png","digest":"d1","size":3}]}`), nil
	}
	return json.RawMessage(answer), nil
}

func (d *desk) Attachments(context.Context) (json.RawMessage, error) {
	d.asked++
	return json.RawMessage(`[{"media_type":"image/png","digest":"d0","size":2},{"media_type":"image/png","url":"https://x/y.png"}]`), nil
}

func (d *desk) Start(_ context.Context, c Call) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[c.Ordinal] = c
	return fmt.Sprintf("t%d", c.Ordinal), nil
}

func (d *desk) Await(_ context.Context, id string) (json.RawMessage, error) {
	if id == "gone" {
		return nil, errors.New("unknown task")
	}
	return json.RawMessage(`{"of":"` + id + `"}`), nil
}

func (d *desk) Message(text, kind string) { d.messages = append(d.messages, kind+":"+text) }

// here is a goroutine in place of a process, for tests of the language with many programs.
func here() *process {
	in, toProgram := io.Pipe()
	out, fromProgram := io.Pipe()
	go interpret(in, fromProgram, func(int64) error { return nil }, func() { _ = fromProgram.Close() }) // ends with the pipes
	end := func() { _, _, _ = in.Close(), out.Close(), toProgram.Close() }
	return &process{in: json.NewEncoder(toProgram), out: json.NewDecoder(out), kill: end, wait: func() {}, memory: (*memory.Pool)(nil).Account("", 0)}
}

// runCode runs a program without a process of its own.
func runCode(t *testing.T, d *desk, limits Limits, req Request) Response {
	t.Helper()
	return runWith(t, d, limits.withDefaults(), req, here().run)
}

// runProcess runs a program as a node does.
func runProcess(t *testing.T, d *desk, limits Limits, req Request) Response {
	t.Helper()
	return runWith(t, d, limits, req, Run)
}

func runWith(t *testing.T, d *desk, limits Limits, req Request, run func(context.Context, Limits, Request, Caller) (Response, error)) Response {
	t.Helper()
	if req.Tools == nil {
		req.Tools = d.names()
	}
	resp, err := run(t.Context(), limits, req, d)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return resp
}
