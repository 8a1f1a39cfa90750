// Command conformance is the plugin with which `lash-node plugin check` checks an SDK, in Go:
//
//	go build -o conformance ./examples/conformance
//	lash-node plugin check --name conformance -- ./conformance
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name, cfg, err := remote.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	defer cfg.Conn.Close()
	ofEcho := []string{"echo"}
	cfg.Plugin, cfg.Version = conformance(name), "1"
	cfg.Hooks = map[events.HookPoint]remote.HookOptions{events.PointBeforeTool: {Tools: ofEcho}, events.PointAfterTool: {Tools: ofEcho, Open: true}}
	cfg.Prompt = []wire.Fragment{{Slot: events.SlotGuidance, Content: "Conformance is here.", Tools: ofEcho}}
	i, err := remote.Start(ctx, cfg)
	if err != nil {
		return err
	}
	return i.Run(ctx)
}

// conformance is the plugin.
func conformance(name string) plugin.Factory {
	none := func(tool string) plugin.Tool { return plugin.Tool{Name: tool, Effects: events.EffectsNone} }
	var mu sync.Mutex
	runs := make(map[string]int) // by key
	return plugin.Func(name, func(r *plugin.Registrar) error {
		r.BeforeToolCall(guard)
		r.AfterToolCall(note)
		r.BeforeTurn(greet)
		r.BeforeModelCall(advise)
		plugin.AddTool(r, none("echo"), func(_ context.Context, _ plugin.Call, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			return in.Text, nil
		})
		plugin.AddTool(r, none("sleep"), sleep)
		plugin.AddTool(r, none("fail"), func(_ context.Context, _ plugin.Call, in struct {
			Class   string `json:"class,omitempty"`
			Message string `json:"message"`
			Safe    bool   `json:"safe,omitempty"`
		},
		) (string, error) {
			return "", &plugin.Failure{Class: in.Class, Message: in.Message, Safe: in.Safe}
		})
		plugin.AddTool(r, none("throw"), func(context.Context, plugin.Call, struct{}) (string, error) { panic("as requested") })
		plugin.AddTool(r, none("big"), func(_ context.Context, _ plugin.Call, in struct {
			Bytes int `json:"bytes"`
		},
		) (string, error) {
			return strings.Repeat("abcdefghijklmnopqrstuvwxyz", in.Bytes/26+1)[:in.Bytes], nil
		})
		plugin.AddTool(r, none("picture"), func(_ context.Context, _ plugin.Call, in struct {
			Bytes int `json:"bytes"`
		},
		) (plugin.Result, error) {
			data := make([]byte, in.Bytes)
			for n := range data {
				data[n] = byte(n % 256) //nolint:gosec // below 256
			}
			part := events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: base64.StdEncoding.EncodeToString(data)}
			return plugin.Result{Text: "picture", Attachments: []events.Part{part}}, nil
		})
		plugin.AddTool(r, none("print"), func(_ context.Context, call plugin.Call, in struct {
			Lines int `json:"lines"`
		},
		) (string, error) {
			for n := range in.Lines {
				call.Output(plugin.StreamStdout, fmt.Sprintf("line %d\n", n+1))
			}
			return fmt.Sprint("printed ", in.Lines), nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "ask", Effects: events.EffectsIdempotent}, ask)
		plugin.AddTool(r, plugin.Tool{Name: "give_up", Effects: events.EffectsIdempotent}, giveUp)
		plugin.AddTool(r, plugin.Tool{Name: "count"}, func(_ context.Context, call plugin.Call, _ struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[call.Key]++
			return fmt.Sprint("run ", runs[call.Key]), nil
		})
		plugin.AddTool(r, none("finish"), func(_ context.Context, _ plugin.Call, in struct {
			Text string `json:"text"`
		},
		) (plugin.Result, error) {
			return plugin.Result{Text: in.Text, Control: events.ControlFinish}, nil
		})
		return nil
	})
}

func sleep(ctx context.Context, _ plugin.Call, in struct {
	Millis int64 `json:"millis"`
},
) (plugin.Result, error) {
	began := time.Now()
	select {
	case <-time.After(time.Duration(in.Millis) * time.Millisecond):
		return plugin.Result{Text: "slept"}, nil
	case <-ctx.Done():
		return plugin.Result{Text: fmt.Sprintf("slept %d of %d ms", time.Since(began).Milliseconds(), in.Millis), Outcome: events.OutcomeCancelled}, nil
	}
}

func ask(ctx context.Context, call plugin.Call, in struct {
	ID     string         `json:"id"`
	Method string         `json:"method"`
	Path   string         `json:"path"`
	Body   map[string]any `json:"body,omitempty"`
},
) (map[string]any, error) {
	body, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	status, answer, err := call.Request(ctx, in.ID, in.Method, in.Path, body)
	return map[string]any{"status": status, "body": answer}, err
}

func giveUp(ctx context.Context, call plugin.Call, in struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Millis   int64  `json:"millis"`
},
) (string, error) {
	short, cancel := context.WithTimeout(ctx, time.Duration(in.Millis)*time.Millisecond)
	defer cancel()
	answer, err := call.Ask(short, in.ID, in.Question, nil)
	if short.Err() != nil && ctx.Err() == nil {
		return "gave up", nil
	}
	return fmt.Sprint("granted ", answer.Granted), err
}

func guard(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
	var args struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return nil, err
	}
	switch args.Text {
	case "forbidden":
		return []plugin.Directive{plugin.Abort("guarded", "not this text")}, nil
	case "other":
		return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"text":"replaced"}`))}, nil
	case "call":
		return []plugin.Directive{plugin.ReplaceArgs(fmt.Appendf(nil, `{"text":"%s %t %t %t"}`, in.Call.Key, in.Call.Again, in.Call.Once, in.Call.Inner))}, nil
	}
	return nil, nil
}

func note(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
	switch in.Result.Text {
	case "loud":
		return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "LOUD"})}, nil
	case "hookfail":
		return nil, errors.New("as requested")
	}
	return nil, nil
}

func greet(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
	if len(in.Input.Parts) == 0 || !strings.HasPrefix(in.Input.Parts[0].Text, "greet me") {
		return nil, nil
	}
	if in.Input.Parts[0].Text == "greet me slowly" {
		time.Sleep(1500 * time.Millisecond)
	}
	return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "hello from conformance"))}, nil
}

func advise(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
	text := plugin.Contribute(events.Contribution{Slot: events.SlotGuidance, Content: fmt.Sprintf("Model call %d.", in.Iteration)})
	if in.Window == 0 || in.LastPrompt*10 < in.Window*9 {
		return []plugin.Directive{text}, nil
	}
	to := events.FrameSwitch{Frame: events.FrameID(fmt.Sprint("f", in.Iteration)), Task: "go on"}
	to.Nodes = []events.NewNode{{Kind: events.NodeMessage, Message: plugin.Say(events.RoleUser, "so far")}}
	return []plugin.Directive{text, plugin.SystemPrompt("Be brief."), plugin.SwitchFrame(to)}, nil
}
