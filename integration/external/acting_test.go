package external

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// acting are arguments of the tools act, which must not run twice, and ask, which may.
type acting struct {
	Do     string `json:"do"`
	N      int    `json:"n,omitempty"`
	Millis int    `json:"millis,omitempty"`
	Hold   bool   `json:"hold,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Body   any    `json:"body,omitempty"`
}

// addCallTools adds the tools act and ask, and the tool run_command.
func addCallTools(r *plugin.Registrar, runs string) error {
	act := func(ctx context.Context, call plugin.Call, in acting) (plugin.Result, error) {
		if err := logRun(runs, "began", call); err != nil {
			return plugin.Result{}, err
		}
		return in.act(ctx, call, runs)
	}
	plugin.AddTool(r, plugin.Tool{Name: "act"}, act)
	plugin.AddTool(r, plugin.Tool{Name: "ask", Effects: events.EffectsIdempotent}, act)
	plugin.AddTool(r, plugin.Tool{Name: "brief", Timeout: 300 * time.Millisecond}, act)
	commands, err := shell.Factory(shell.Config{Dir: os.TempDir()})
	if err != nil {
		return err
	}
	declared, err := plugin.Declare(commands)
	if err != nil {
		return err
	}
	return r.Tools(declared.Tools)
}

func (in acting) act(ctx context.Context, call plugin.Call, runs string) (plugin.Result, error) {
	wait := func(ctx context.Context) bool { return pause(ctx, runs, in.Millis, in.Hold) }
	switch in.Do {
	case "large":
		return plugin.Result{Text: largeText(in.N)}, nil
	case "finish":
		return plugin.Result{Text: "the end", Control: events.ControlFinish, Emit: []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`)}}, nil
	case "picture":
		data := base64.StdEncoding.EncodeToString([]byte(largeText(in.N)))
		return plugin.Result{Text: "a picture", Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Text: data}}}, nil
	case "body":
		data := []byte(largeText(in.N))
		ref, err := call.StoreBody(ctx, data)
		if err != nil {
			return plugin.Result{}, err
		}
		if err := logRun(runs, "stored", call); err != nil || !wait(ctx) {
			return plugin.Result{}, errors.Join(err, ctx.Err())
		}
		read, err := call.ReadBody(ctx, ref.Digest)
		text := fmt.Sprint("read ", string(read) == string(data))
		return plugin.Result{Text: text, Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref}}}, err
	case "read":
		_, err := call.ReadBody(ctx, in.Path)
		return plugin.Result{Text: "read it"}, err
	case "name":
		ref := events.BlobRef{Digest: in.Path, Size: int64(in.N)}
		return plugin.Result{Text: "named it", Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref}}}, nil
	case "lines":
		for n := range in.N {
			call.Output(plugin.StreamStdout, fmt.Sprintf("line %d\n", n+1))
			pause(ctx, runs, in.Millis, false)
		}
		return plugin.Result{Text: "printed"}, nil
	case "request":
		var sent json.RawMessage
		if in.Body != nil {
			sent, _ = json.Marshal(in.Body) // it was JSON
		}
		status, body, err := call.Request(ctx, "r1", in.Method, in.Path, sent)
		return plugin.Result{Text: fmt.Sprint(status, " ", string(body))}, err
	case "copy":
		_, snapshot, err := call.Request(ctx, "r1", "GET", "/v1/sessions/"+string(call.Session)+"/snapshot", nil)
		if err != nil {
			return plugin.Result{}, err
		}
		body := fmt.Sprintf(`{"parent":%q,"start":"snapshot","snapshot":%s}`, call.Session, snapshot)
		status, answer, err := call.Request(ctx, "r2", "POST", "/v1/sessions", json.RawMessage(body))
		return plugin.Result{Text: fmt.Sprint(status, " ", string(answer))}, err
	case "trace":
		event, _ := json.Marshal(&wire.Trace{Name: "seen", Payload: json.RawMessage(`{"n":1}`), Context: &wire.TraceContext{ModelCall: "m1", Metadata: map[string]string{"run": "r7"}}})
		status, _, err := call.Request(ctx, "r1", "POST", wire.TracePath, event)
		return plugin.Result{Text: fmt.Sprint(status)}, err
	case "leave": // the callback and the outcome are sent together
		sent, _ := json.Marshal(in.Body) // it was JSON
		go leave(ctx, call, runs, in.Method, in.Path, sent)
		pause(ctx, runs, 1, false)
		return plugin.Result{Text: "left"}, nil
	case "people":
		given, err := call.Ask(ctx, "r1", "Which one?", json.RawMessage(`{"of":["red","blue"]}`))
		if ctx.Err() != nil {
			return plugin.Result{}, logRun(runs, "stopped", call)
		}
		text, _ := json.Marshal(wire.Answer{Granted: given.Granted, Reason: given.Reason, By: given.By})
		return plugin.Result{Text: string(text)}, err
	case "child":
		status, body, err := call.Request(ctx, "child", "POST", "/v1/sessions", json.RawMessage(fmt.Sprintf(`{"parent":%q}`, call.Session)))
		if err == nil {
			err = logRun(runs, "asked", call)
		}
		wait(context.WithoutCancel(ctx))
		return plugin.Result{Text: fmt.Sprint(status, " ", string(body))}, err
	case "die":
		os.Exit(7)
	case "stubborn":
		wait(context.WithoutCancel(ctx))
		return plugin.Result{Text: "went on"}, logRun(runs, "ended", call)
	case "partial":
		if !wait(ctx) {
			return plugin.Result{Outcome: events.OutcomeCancelled, Text: "half"}, nil
		}
	}
	return plugin.Result{Text: "done"}, nil
}

func largeText(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d-é ", i)
	}
	return strings.ToValidUTF8(b.String()[:n], "x")
}

// leave performs a callback whose call ends meanwhile, and one after the end, and logs what each got.
func leave(ctx context.Context, call plugin.Call, runs, method, path string, body json.RawMessage) {
	status, answer, err := call.Request(ctx, "r1", method, path, body)
	_ = logRun(runs, fmt.Sprintf("left %d %v %s", status, err, answer), call)
	<-ctx.Done() // the tool has returned
	for range 100 {
		if _, _, err = call.Request(context.WithoutCancel(ctx), "r2", method, path, body); errors.Is(err, remote.ErrCallEnded) {
			break
		}
		pause(context.WithoutCancel(ctx), runs, 10, false) // its outcome is on its way
	}
	_ = logRun(runs, fmt.Sprintf("late %v", errors.Is(err, remote.ErrCallEnded)), call)
}
