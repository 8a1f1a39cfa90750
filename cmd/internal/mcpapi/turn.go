package mcpapi

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/session/operation"
)

// Waits for the end of a turn, in seconds.
const (
	defaultWait = 60
	maxWait     = 3600
	oneWait     = 2 // of one request of the API: its answer says whether a call waits for an approval
)

type newTurn struct {
	Session string `json:"session"`
	Text    string `json:"text" jsonschema:"the input of the turn"`
	Turn    string `json:"turn,omitempty" jsonschema:"id of your choice: a repeat with it joins the turn; omitted: a new one"`
	Wait    *int   `json:"wait_seconds,omitempty" jsonschema:"0 to 3600; default 60"`
}

func (a *api) run(ctx context.Context, r *mcp.CallToolRequest, in newTurn) (json.RawMessage, error) {
	in.Turn = cmp.Or(in.Turn, newID())
	if _, err := a.perform(ctx, &operation.Submit.Row, submitted{in.Session, in.Turn, in.Text}); err != nil {
		return nil, err
	}
	data, err := a.wait(ctx, r, awaited{Session: in.Session, Turn: in.Turn, Wait: in.Wait})
	if err != nil {
		return nil, fmt.Errorf("turn %s was accepted, do not ask again; wait_turn reads how it ends: %w", in.Turn, err)
	}
	return data, nil
}

// submitted is the request of a turn.
type submitted struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Text    string `json:"text"`
}

// waiting is the request of a turn's end.
type waiting struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Wait    int    `json:"wait"` // in seconds
}

// newID is a new id of a session or turn.
func newID() string { return strings.ToLower(rand.Text()) }

type awaited struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Wait    *int   `json:"wait_seconds,omitempty" jsonschema:"0 to 3600; default 60"`
}

// wait waits for a turn's end, as long as the call does. Its events are progress.
func (a *api) wait(ctx context.Context, r *mcp.CallToolRequest, in awaited) (json.RawMessage, error) {
	seconds := defaultWait
	if in.Wait != nil {
		seconds = *in.Wait
	}
	if seconds < 0 || seconds > maxWait {
		return nil, fmt.Errorf("wait_seconds: is %d, want 0 to %d", seconds, maxWait)
	}
	seconds = min(seconds, a.maxWait)
	shown, stop := context.WithCancel(ctx)
	defer stop()
	if token := r.Params.GetProgressToken(); token != nil {
		go a.progress(shown, r.Session, token, in) // ends with the call
	}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); ; {
		left := min(max(int(time.Until(end).Round(time.Second).Seconds()), 0), oneWait)
		data, err := a.perform(ctx, operation.Turn, waiting{in.Session, in.Turn, left})
		if err != nil || !runs(data) || time.Now().After(end) || left == 0 {
			return data, err
		}
	}
}

// runs reports whether an answer says that a turn has not ended, and needs no approval.
func runs(data []byte) bool {
	var pending struct{ Status string }
	return json.Unmarshal(data, &pending) == nil && pending.Status != "" && pending.Status != "asking"
}

// progress sends a notification for each event of a turn that people would want to see.
func (a *api) progress(ctx context.Context, to *mcp.ServerSession, token any, of awaited) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/v1/sessions/"+url.PathEscape(of.Session)+"/turns/"+url.PathEscape(of.Turn)+"/stream", http.NoBody)
	if err != nil {
		return
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return // the wait says so
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxAnswer)
	for n := 0.0; lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if message := shownEvent(data); ok && message != "" {
			n++
			_ = to.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: message})
		}
	}
}

// shownEvent is what the progress of a turn has of an event: its type, and the name of its tool. Deltas of a reply, which
// are many, have none.
func shownEvent(data string) string {
	var event struct{ Type, Name string }
	if json.Unmarshal([]byte(data), &event) != nil || strings.HasSuffix(event.Type, "_delta") {
		return ""
	}
	return strings.TrimSpace(event.Type + " " + event.Name)
}

type stopped struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Reason  string `json:"reason,omitempty" jsonschema:"for the history, at most 1000 bytes"`
}
