package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// traffic keeps all messages of a server's clients.
type traffic struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (c *traffic) add(m *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprint(&c.all, m.Subject, m.Header, string(m.Data)) // memory
}

func (c *traffic) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.all.Bytes(), []byte(text))
}

// stored are the places of JetStream in which a text is: streams of sessions, deltas, bodies, the index and all tables.
func (s *setting) stored(text string) (places []string) {
	s.T.Helper()
	js := harness.JetStreamOf(s.Bus)
	list := js.ListStreams(s.Ctx)
	for info := range list.Info() {
		stream, err := js.Stream(s.Ctx, info.Config.Name)
		runtest.WantError(s.T, "stream", err, nil)
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			m, err := stream.GetMsg(s.Ctx, seq)
			if err == nil && (bytes.Contains(m.Data, []byte(text)) || strings.Contains(fmt.Sprint(m.Header, m.Subject), text)) {
				places = append(places, fmt.Sprintf("%s %d", info.Config.Name, seq))
			} else if err != nil && err != jetstream.ErrMsgNotFound { //nolint:errorlint // it is not wrapped
				s.T.Errorf("%s %d: %v", info.Config.Name, seq, err)
			}
		}
	}
	runtest.WantError(s.T, "streams", list.Err(), nil)
	return places
}

// TestSecretsAreNotRecorded gives a server secrets by references to a file and to a variable. At its first start the server
// echoes them on both of its outputs and ends; later it prints them to its standard error, and refuses a call with them.
// They are in no message, stream, table or body, and in no log. What a server returns as the
// result of a call is the history's, and not looked at.
func TestSecretsAreNotRecorded(t *testing.T) {
	t.Parallel()
	s := start(t)
	var seen traffic
	sub, err := s.Bus.Conn().Subscribe(">", seen.add)
	runtest.WantError(t, "subscribe", err, nil)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	dir := t.TempDir()
	fromFile, fromVariable := "f1l3-Zm9vYmFyYmF6cXV4-"+strings.ToLower(t.Name()), "v4r-cXV1eGNvcmdlZ3JhdWx0"
	runtest.WantError(t, "file", os.WriteFile(filepath.Join(dir, "key"), []byte(fromFile+"\n"), 0o600), nil)
	const script = `echo "started with $FILE_KEY and $VARIABLE_KEY" >&2
if [ ! -e "$DIR/first" ]; then : > "$DIR/first"; echo "{\"bad key\": \"$FILE_KEY $VARIABLE_KEY\""; exit 1; fi
exec "$0"`
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"srv": map[string]any{
		"command": "sh", "args": []string{"-c", script, os.Args[0]},
		"env": map[string]string{"FILE_KEY": "${file:" + filepath.Join(dir, "key") + "}", "VARIABLE_KEY": "Bearer ${KEY}", "DIR": dir, runsVariable: s.runs, oldVariable: ""},
	}}})
	runtest.WantError(t, "json", err, nil)
	servers, err := mcp.Parse(file, func(name string) string { return map[string]string{"KEY": fromVariable}[name] }, os.ReadFile)
	runtest.WantError(t, "parse", err, nil)
	server := servers[0]
	core, logs := observer.New(zap.DebugLevel)
	s.log = zap.New(core)
	s.source(server)
	digest := func(value string) string {
		sum := sha256.Sum256([]byte(value))
		return hex.EncodeToString(sum[:])
	}
	runtest.Equal(t, "secret of the file", s.result("srv__look", `{"do":"digest","text":"FILE_KEY"}`).Text, digest(fromFile))
	runtest.Equal(t, "secret of the variable", s.result("srv__look", `{"do":"digest","text":"VARIABLE_KEY"}`).Text, digest("Bearer "+fromVariable))
	runtest.Contains(t, "refused call", s.result("srv__look", `{"do":"refuse","text":"FILE_KEY"}`).Text, "refused with ***")
	runtest.WantError(t, "flush", s.Bus.Conn().Flush(), nil)
	s.AwaitPolling("what is stored", func() bool { return len(s.stored("srv__look")) > 0 })
	logged, err := json.Marshal(logs.All())
	runtest.WantError(t, "logs", err, nil)
	for control, found := range map[string]bool{"messages": seen.has("srv__look"), "logs": strings.Contains(string(logged), "started with ***")} {
		if !found {
			t.Errorf("%s: what is known to be there is not found", control)
		}
	}
	for _, secret := range []string{fromFile, fromVariable} {
		if places := s.stored(secret); len(places) > 0 {
			t.Errorf("stored in %v", places)
		}
		if seen.has(secret) {
			t.Error("a message has the secret")
		}
		if strings.Contains(string(logged), secret) {
			t.Errorf("the log has the secret: %s", logged)
		}
	}
}
